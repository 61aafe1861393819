# stamp.cmake - run by the build (cmake -P): writes OUT, a source that says which headers a module or a program was made
# with. VERSION and the bytes of HEADERS decide, nothing of the machine: the same sources make the same stamp.
set(bytes "")
foreach(header ${HEADERS})
  file(SHA256 ${header} digest)
  string(APPEND bytes ${digest})
endforeach()
string(SHA256 digest "${bytes}")
string(SUBSTRING ${digest} 0 16 digest)
file(WRITE ${OUT} "#include \"modules/stamp.h\"
const char idem__module_stamp[] = IDEM__STAMP_LEAD \"${VERSION}-${digest}\";
")
