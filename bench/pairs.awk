# pairs.awk - what pairs of measurements say: reads "FIGURE<tab>PAIR<tab>a|b<tab>VALUE", prints the median of each figure's ratios b to a with
# its 95 % interval, and says which lie wholly beyond 3 %. A figure with "/s" in its name is a rate: more is better.
# The interval is between order statistics of the ratios: from the k-th least to the k-th greatest, k being the greatest number
# with which the median of whatever is measured lies between them in 95 of 100 cases (a binomial of one half).
function sorted(list, n,   i, j, value) {
  for (i = 2; i <= n; i++) {
    value = list[i]
    for (j = i - 1; j > 0 && list[j] > value; j--) list[j + 1] = list[j]
    list[j + 1] = value
  }
}
function median(list, n) { return (list[int((n + 1) / 2)] + list[int(n / 2) + 1]) / 2 }
function outer(n,   k, term, tail) {
  term = tail = 0.5 ^ n
  for (k = 1; 2 * (tail + term * (n - k + 1) / k) <= 0.05; k++) { term *= (n - k + 1) / k; tail += term }
  return k
}
function grouped(value) { return value >= 100 ? sprintf("%.0f", value) : sprintf("%.2f", value) }
!($1 in known) { known[$1] = 1; order[++figures] = $1 }
{ value[$1, $2, $3] = $4; if ($2 > most) most = $2 }
END {
  print "| figure | A | B | B to A | 95 % | |"
  print "|---|---|---|---|---|---|"
  for (f = 1; f <= figures; f++) {
    n = 0
    for (pair = 1; pair <= most; pair++) {
      if (!((order[f], pair, "a") in value) || !((order[f], pair, "b") in value)) continue
      n++
      as[n] = value[order[f], pair, "a"]; bs[n] = value[order[f], pair, "b"]; ratios[n] = bs[n] / as[n]
    }
    if (!n) continue
    sorted(as, n); sorted(bs, n); sorted(ratios, n)
    k = n >= 6 ? outer(n) : 1
    low = ratios[k]; high = ratios[n + 1 - k]
    rate = order[f] ~ /\/s/
    verdict = ""
    if (low > 1.03) verdict = rate ? "BETTER" : "WORSE"
    if (high < 0.97) verdict = rate ? "WORSE" : "BETTER"
    if (verdict != "") beyond++
    printf "| %s | %s | %s | %.3f | %.3f to %.3f | %s |\n", order[f], grouped(median(as, n)), grouped(median(bs, n)),
      median(ratios, n), low, high, verdict
  }
  printf "\n%d of %d figures lie wholly beyond 3 %%.\n", beyond, figures
}
