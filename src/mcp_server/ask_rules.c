/* ask_rules.c - what questions and their answers look like, as schemas, compiled by the first worker that
 * needs them. Forms are flat: a property is a text, a number, a switch or a choice. */
#include "ask.h"
#include "worker.h"

#include <stdio.h>
#include <string.h>

#define STRINGS "{\"type\":\"array\",\"items\":{\"type\":\"string\"}}"
#define TITLED                                                                                     \
  "{\"type\":\"array\",\"minItems\":1,\"items\":{\"type\":\"object\","                             \
  "\"required\":[\"const\",\"title\"],\"properties\":{\"const\":{\"type\":\"string\"},"            \
  "\"title\":{\"type\":\"string\"}}}}"
#define CHOICES "{\"type\":\"array\",\"minItems\":1,\"items\":{\"type\":\"string\"}}"
#define WHEN(member, value, then)                                                                  \
  "{\"if\":{\"properties\":{\"" member "\":" value "}},\"then\":" then "}"
/* Nothing that leads into another level. */
#define FLAT                                                                                       \
  "\"properties\":false,\"$ref\":false,\"allOf\":false,\"anyOf\":false,\"not\":false,"             \
  "\"if\":false,\"additionalProperties\":false,\"patternProperties\":false"

static const char form[] =
    "{\"type\":\"object\",\"required\":[\"type\",\"properties\"],\"properties\":{"
    "\"type\":{\"const\":\"object\"},\"required\":" STRINGS ",\"$schema\":{\"type\":\"string\"},"
    "\"properties\":{\"type\":\"object\",\"additionalProperties\":{\"$ref\":\"#/$defs/"
    "field\"}}},"
    "\"$defs\":{\"field\":{\"type\":\"object\",\"required\":[\"type\"],\"properties\":{"
    "\"type\":{\"enum\":[\"string\",\"number\",\"integer\",\"boolean\",\"array\"]},"
    "\"title\":{\"type\":\"string\"},\"description\":{\"type\":\"string\"},"
    "\"minLength\":{\"type\":\"integer\"},\"maxLength\":{\"type\":\"integer\"},"
    "\"format\":{\"enum\":[\"email\",\"uri\",\"date\",\"date-time\"]},"
    "\"minimum\":{\"type\":\"number\"},\"maximum\":{\"type\":\"number\"},"
    "\"minItems\":{\"type\":\"integer\"},\"maxItems\":{\"type\":\"integer\"},"
    "\"enum\":" CHOICES ",\"enumNames\":" STRINGS ",\"oneOf\":" TITLED ","
    "\"items\":{\"type\":\"object\",\"properties\":{\"enum\":" CHOICES ",\"anyOf\":" TITLED "},"
    "\"anyOf\":[{\"required\":[\"enum\"]},{\"required\":[\"anyOf\"]}]}," FLAT "},"
    "\"allOf\":[" WHEN("type", "{\"const\":\"array\"}",
                       "{\"required\":[\"items\"],\"properties\":{\"default\":" STRINGS
                       "}}") "," WHEN("type", "{\"const\":\"string\"}",
                                      "{\"properties\":{\"default\":{\"type\":\"string\"}}"
                                      "}") "," WHEN("type", "{\"enum\":[\"number\",\"integer\"]}",
                                                    "{\"properties\":{\"default\":{"
                                                    "\"type\":\"number\"}}}") "," WHEN("typ"
                                                                                       "e",
                                                                                       "{\""
                                                                                       "con"
                                                                                       "st"
                                                                                       "\":"
                                                                                       "\"b"
                                                                                       "ool"
                                                                                       "ean"
                                                                                       "\""
                                                                                       "}",
                                                                                       "{\""
                                                                                       "pro"
                                                                                       "per"
                                                                                       "tie"
                                                                                       "s\""
                                                                                       ":{"
                                                                                       "\"d"
                                                                                       "efa"
                                                                                       "ult"
                                                                                       "\":"
                                                                                       "{\""
                                                                                       "typ"
                                                                                       "e\""
                                                                                       ":\""
                                                                                       "boo"
                                                                                       "lea"
                                                                                       "n\""
                                                                                       "}}"
                                                                                       "}") "]}}}";

#define BLOCK                                                                                                                                                                                                                                                      \
  "\"$defs\":{\"block\":{\"type\":\"object\",\"required\":[\"type\"],\"properties\":{\"type\":"                                                                                                                                                                    \
  "{\"enum\":[\"text\",\"image\",\"audio\",\"tool_use\",\"tool_result\"]}},\"allOf\":[" WHEN(                                                                                                                                                                      \
      "type", "{\"const\":\"text\"}",                                                                                                                                                                                                                              \
      "{\"required\":[\"text\"],\"properties\":{\"text\":{\"type\":\"string\"}}}") "," WHEN("typ"                                                                                                                                                                  \
                                                                                            "e",                                                                                                                                                                   \
                                                                                            "{\"e"                                                                                                                                                                 \
                                                                                            "num"                                                                                                                                                                  \
                                                                                            "\":["                                                                                                                                                                 \
                                                                                            "\"im"                                                                                                                                                                 \
                                                                                            "age"                                                                                                                                                                  \
                                                                                            "\","                                                                                                                                                                  \
                                                                                            "\"au"                                                                                                                                                                 \
                                                                                            "dio"                                                                                                                                                                  \
                                                                                            "\"]"                                                                                                                                                                  \
                                                                                            "}",                                                                                                                                                                   \
                                                                                            "{\"r"                                                                                                                                                                 \
                                                                                            "equi"                                                                                                                                                                 \
                                                                                            "red"                                                                                                                                                                  \
                                                                                            "\":["                                                                                                                                                                 \
                                                                                            "\"da"                                                                                                                                                                 \
                                                                                            "ta\""                                                                                                                                                                 \
                                                                                            ",\"m"                                                                                                                                                                 \
                                                                                            "imeT"                                                                                                                                                                 \
                                                                                            "ype"                                                                                                                                                                  \
                                                                                            "\"],"                                                                                                                                                                 \
                                                                                            "\"pr"                                                                                                                                                                 \
                                                                                            "oper"                                                                                                                                                                 \
                                                                                            "ties"                                                                                                                                                                 \
                                                                                            "\":{"                                                                                                                                                                 \
                                                                                            "\"da"                                                                                                                                                                 \
                                                                                            "ta\""                                                                                                                                                                 \
                                                                                            ":{"                                                                                                                                                                   \
                                                                                            "\"ty"                                                                                                                                                                 \
                                                                                            "pe\""                                                                                                                                                                 \
                                                                                            ":\"s"                                                                                                                                                                 \
                                                                                            "trin"                                                                                                                                                                 \
                                                                                            "g\"}"                                                                                                                                                                 \
                                                                                            ","                                                                                                                                                                    \
                                                                                            "\"mi"                                                                                                                                                                 \
                                                                                            "meTy"                                                                                                                                                                 \
                                                                                            "pe\""                                                                                                                                                                 \
                                                                                            ":{"                                                                                                                                                                   \
                                                                                            "\"ty"                                                                                                                                                                 \
                                                                                            "pe\""                                                                                                                                                                 \
                                                                                            ":\"s"                                                                                                                                                                 \
                                                                                            "trin"                                                                                                                                                                 \
                                                                                            "g\"}"                                                                                                                                                                 \
                                                                                            "}}") "," WHEN("type",                                                                                                                                                 \
                                                                                                           "{\"const\":\"tool_use\"}",                                                                                                                             \
                                                                                                           "{\"required\":[\"id\",\"name\",\"input\"],\"properties\":{\"id\":{\"type\":\"string\"},"                                                               \
                                                                                                           "\"name\":{\"type\":\"string\"},\"input\":{\"type\":\"object\"}}}") "," WHEN("type",                                                                    \
                                                                                                                                                                                        "{\"const\":\"tool_result\"}",                                             \
                                                                                                                                                                                        "{\"required\":[\"toolUseId\",\"content\"],\"properties\":{\"toolUseId\":" \
                                                                                                                                                                                        "{\"type\":\"string\"},\"content\":{\"type\":\"array\"}}}") "]}}"
#define CONTENT                                                                                    \
  "{\"if\":{\"type\":\"array\"},\"then\":{\"minItems\":1,\"items\":{\"$ref\":\"#/$defs/block\"}}," \
  "\"else\":{\"$ref\":\"#/$defs/block\"}}"
#define ROLE "{\"enum\":[\"user\",\"assistant\"]}"
#define SHARE "{\"type\":\"number\",\"minimum\":0,\"maximum\":1}"

static const char sampling[] =
    "{\"type\":\"object\",\"required\":[\"messages\",\"maxTokens\"],\"properties\":{"
    "\"messages\":{\"type\":\"array\",\"minItems\":1,\"items\":{\"type\":\"object\","
    "\"required\":[\"role\",\"content\"],\"properties\":{\"role\":" ROLE ",\"content\":" CONTENT
    "}}},"
    "\"maxTokens\":{\"type\":\"integer\",\"minimum\":1},\"systemPrompt\":{\"type\":\"string\"},"
    "\"temperature\":{\"type\":\"number\"},\"stopSequences\":" STRINGS ","
    "\"includeContext\":{\"enum\":[\"none\",\"thisServer\",\"allServers\"]},"
    "\"metadata\":{\"type\":\"object\"},\"modelPreferences\":{\"type\":\"object\",\"properties\":{"
    "\"costPriority\":" SHARE ",\"speedPriority\":" SHARE ",\"intelligencePriority\":" SHARE ","
    "\"hints\":{\"type\":\"array\",\"items\":{\"type\":\"object\"}}}},"
    "\"tools\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"required\":[\"name\","
    "\"inputSchema\"],\"properties\":{\"name\":{\"type\":\"string\"},\"inputSchema\":"
    "{\"type\":\"object\"}}}},\"toolChoice\":{\"type\":\"object\",\"properties\":{\"mode\":"
    "{\"enum\":[\"auto\",\"required\",\"none\"]}}}}," BLOCK "}";

/* An answer has no "error": that is what takes the place of one. */
static const char form_answer[] =
    "{\"type\":\"object\",\"required\":[\"action\"],\"properties\":{\"error\":false,"
    "\"action\":{\"enum\":[\"accept\",\"decline\",\"cancel\"]},"
    "\"content\":{\"type\":\"object\",\"additionalProperties\":{\"if\":{\"type\":\"array\"},"
    "\"then\":{\"items\":{\"type\":\"string\"}},"
    "\"else\":{\"type\":[\"string\",\"number\",\"boolean\"]}}}}}";

static const char sampled_answer[] =
    "{\"type\":\"object\",\"required\":[\"role\",\"content\",\"model\"],\"properties\":{"
    "\"error\":false,\"role\":" ROLE ",\"content\":" CONTENT ",\"model\":{\"type\":\"string\"},"
    "\"stopReason\":{\"type\":\"string\"}}," BLOCK "}";

static const char roots_answer[] =
    "{\"type\":\"object\",\"required\":[\"roots\"],\"properties\":{\"error\":false,"
    "\"roots\":{\"type\":\"array\","
    "\"items\":{\"type\":\"object\",\"required\":[\"uri\"],\"properties\":{"
    "\"uri\":{\"type\":\"string\",\"pattern\":\"^file://\"},\"name\":{\"type\":\"string\"}}}}}}";

static const struct {
  const char *text;
  const char *name; /* how sentences call the value */
} rules[IDEM__ASK_RULES] = {
    [IDEM__RULE_FORM] = {form, "schema"},
    [IDEM__RULE_SAMPLING] = {sampling, "params"},
    [IDEM__RULE_FORM_ANSWER] = {form_answer, "result"},
    [IDEM__RULE_SAMPLED_ANSWER] = {sampled_answer, "result"},
    [IDEM__RULE_ROOTS_ANSWER] = {roots_answer, "result"},
};

static const idem_schema *compiled(idem__mcp_worker *worker, idem__ask_rule rule) {
  if (!worker->ask_rules[rule]) {
    idem_schema_opts opts = {.alloc = &worker->alloc};
    idem_schema_compile(&opts, rules[rule].text, strlen(rules[rule].text), &worker->ask_rules[rule],
                        NULL);
  }
  return worker->ask_rules[rule];
}

bool idem__ask_rule_holds(idem__mcp_worker *worker, idem__ask_rule rule, yyjson_val *value,
                          char *why, size_t why_len) {
  idem_schema_check check = {.root_name = rules[rule].name};
  idem_schema_result result = {.valid = false};
  const idem_schema *schema = compiled(worker, rule);
  idem_status status =
      schema ? idem_schema_validate(schema, worker->schema, value, &check, &result) : IDEM_E_NOMEM;
  if (status == IDEM_OK && result.valid) return true;
  snprintf(why, why_len, "%s",
           result.error_count ? result.errors[0].log_sentence : idem_status_text(status));
  return false;
}

void idem__ask_rules_free(idem__mcp_worker *worker) {
  for (size_t i = 0; i < IDEM__ASK_RULES; i++) idem_schema_free(worker->ask_rules[i]);
}
