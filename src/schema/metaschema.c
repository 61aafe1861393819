/* metaschema.c - the meta-schemas of both drafts, so that a schema may refer to them.
 * Written out in our own words from the keywords' definitions: only what decides validity, without
 * titles and descriptions. */
#include "schema.h"

#define BASE_2020 "https://json-schema.org/draft/2020-12/"
#define DIALECT_2020 "\"$schema\":\"" BASE_2020 "schema\",\"$dynamicAnchor\":\"meta\","
#define VOCABULARY_2020(name) "\"$vocabulary\":{\"" BASE_2020 "vocab/" name "\":true},"
#define KINDS "\"type\":[\"object\",\"boolean\"],"
#define META "{\"$dynamicRef\":\"#meta\"}"
#define META_ARRAY "\"schemaArray\":{\"type\":\"array\",\"minItems\":1,\"items\":" META "}"
#define COUNT "{\"type\":\"integer\",\"minimum\":0}"
#define NAMES "{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"uniqueItems\":true}"
#define NUMBER "{\"type\":\"number\"}"
#define BOOLEAN "{\"type\":\"boolean\"}"
#define STRING "{\"type\":\"string\"}"
#define SIMPLE_TYPES                                                                               \
  "{\"enum\":[\"array\",\"boolean\",\"integer\",\"null\",\"number\",\"object\",\"string\"]}"
#define TYPES(ref)                                                                                 \
  "{\"anyOf\":[" ref ",{\"type\":\"array\",\"items\":" ref ",\"minItems\":1,\"uniqueItems\":true}" \
  "]}"

static const char schema_2020[] =
    "{" DIALECT_2020 "\"$id\":\"" BASE_2020 "schema\","
    "\"$vocabulary\":{\"" BASE_2020 "vocab/core\":true,\"" BASE_2020 "vocab/applicator\":true,"
    "\"" BASE_2020 "vocab/unevaluated\":true,\"" BASE_2020 "vocab/validation\":true,"
    "\"" BASE_2020 "vocab/meta-data\":true,\"" BASE_2020 "vocab/format-annotation\":true,"
    "\"" BASE_2020 "vocab/content\":true},"
    "\"allOf\":[{\"$ref\":\"meta/core\"},{\"$ref\":\"meta/applicator\"},"
    "{\"$ref\":\"meta/unevaluated\"},{\"$ref\":\"meta/validation\"},{\"$ref\":\"meta/meta-data\"},"
    "{\"$ref\":\"meta/format-annotation\"},{\"$ref\":\"meta/content\"}]," KINDS
    "\"properties\":{\"definitions\":{\"type\":\"object\",\"additionalProperties\":" META
    ",\"default\":{}},\"dependencies\":{\"type\":\"object\",\"additionalProperties\":{\"anyOf\":"
    "[" META ",{\"$ref\":\"meta/validation#/$defs/stringArray\"}]},\"default\":{}},"
    "\"$recursiveAnchor\":{\"$ref\":\"meta/core#/$defs/anchorString\"},"
    "\"$recursiveRef\":{\"$ref\":\"meta/core#/$defs/uriReferenceString\"}}}";

static const char core_2020[] =
    "{" DIALECT_2020 "\"$id\":\"" BASE_2020 "meta/core\"," VOCABULARY_2020("core") KINDS
    "\"properties\":{\"$id\":{\"$ref\":\"#/$defs/uriReferenceString\",\"pattern\":\"^[^#]*#?$\"},"
    "\"$schema\":{\"$ref\":\"#/$defs/uriString\"},"
    "\"$ref\":{\"$ref\":\"#/$defs/uriReferenceString\"},"
    "\"$anchor\":{\"$ref\":\"#/$defs/anchorString\"},"
    "\"$dynamicRef\":{\"$ref\":\"#/$defs/uriReferenceString\"},"
    "\"$dynamicAnchor\":{\"$ref\":\"#/$defs/anchorString\"},"
    "\"$vocabulary\":{\"type\":\"object\",\"propertyNames\":{\"$ref\":\"#/$defs/uriString\"},"
    "\"additionalProperties\":" BOOLEAN "},\"$comment\":" STRING ","
    "\"$defs\":{\"type\":\"object\",\"additionalProperties\":" META "}},"
    "\"$defs\":{\"anchorString\":{\"type\":\"string\",\"pattern\":\"^[A-Za-z_][-A-Za-z0-9._]*$\"},"
    "\"uriString\":{\"type\":\"string\",\"format\":\"uri\"},"
    "\"uriReferenceString\":{\"type\":\"string\",\"format\":\"uri-reference\"}}}";

static const char applicator_2020[] =
    "{" DIALECT_2020 "\"$id\":\"" BASE_2020 "meta/applicator\"," VOCABULARY_2020("applicator") KINDS
    "\"properties\":{\"prefixItems\":{\"$ref\":\"#/$defs/schemaArray\"},\"items\":" META ","
    "\"contains\":" META ",\"additionalProperties\":" META ","
    "\"properties\":{\"type\":\"object\",\"additionalProperties\":" META ",\"default\":{}},"
    "\"patternProperties\":{\"type\":\"object\",\"additionalProperties\":" META ","
    "\"propertyNames\":{\"format\":\"regex\"},\"default\":{}},"
    "\"dependentSchemas\":{\"type\":\"object\",\"additionalProperties\":" META ",\"default\":{}},"
    "\"propertyNames\":" META ",\"if\":" META ",\"then\":" META ",\"else\":" META ","
    "\"allOf\":{\"$ref\":\"#/$defs/schemaArray\"},\"anyOf\":{\"$ref\":\"#/$defs/schemaArray\"},"
    "\"oneOf\":{\"$ref\":\"#/$defs/schemaArray\"},\"not\":" META "},"
    "\"$defs\":{" META_ARRAY "}}";

static const char unevaluated_2020[] =
    "{" DIALECT_2020 "\"$id\":\"" BASE_2020 "meta/unevaluated\"," VOCABULARY_2020("unevaluated")
        KINDS "\"properties\":{\"unevaluatedItems\":" META ","
              "\"unevaluatedProperties\":" META "}}";

static const char validation_2020[] =
    "{" DIALECT_2020 "\"$id\":\"" BASE_2020 "meta/validation\"," VOCABULARY_2020("validation") KINDS
    "\"properties\":{\"type\":" TYPES(
        "{\"$ref\":\"#/$defs/simpleTypes\"}") ",\"const\":true,"
                                              "\"enum\":{\"type\":\"array\",\"items\":true},"
                                              "\"multipleOf\":{\"type\":\"number\","
                                              "\"exclusiveMinimum\":0},\"maximum\":" NUMBER ","
                                              "\"exclusiveMaximum\":" NUMBER ",\"minimum\":" NUMBER
                                              ",\"exclusiveMinimum\":" NUMBER ","
                                              "\"maxLength\":{\"$ref\":\"#/$defs/"
                                              "count\"},\"minLength\":{\"$ref\":\"#/$defs/count\"},"
                                              "\"pattern\":{\"type\":\"string\",\"format\":"
                                              "\"regex\"},"
                                              "\"maxItems\":{\"$ref\":\"#/$defs/"
                                              "count\"},\"minItems\":{\"$ref\":\"#/$defs/count\"},"
                                              "\"uniqueItems\":" BOOLEAN
                                              ",\"maxContains\":{\"$ref\":\"#/$defs/count\"},"
                                              "\"minContains\":{\"$ref\":\"#/$defs/"
                                              "count\"},\"maxProperties\":{\"$ref\":\"#/$defs/"
                                              "count\"},"
                                              "\"minProperties\":{\"$ref\":\"#/$defs/count\"},"
                                              "\"required\":{\"$ref\":\"#/$defs/"
                                              "stringArray\"},\"dependentRequired\":{\"type\":"
                                              "\"object\","
                                              "\"additionalProperties\":{\"$ref\":\"#/$defs/"
                                              "stringArray\"}}},"
                                              "\"$defs\":{\"count\":" COUNT
                                              ",\"simpleTypes\":" SIMPLE_TYPES
                                              ",\"stringArray\":" NAMES "}}";

static const char meta_data_2020[] =
    "{" DIALECT_2020 "\"$id\":\"" BASE_2020 "meta/meta-data\"," VOCABULARY_2020("meta-data") KINDS
    "\"properties\":{\"title\":" STRING ",\"description\":" STRING ",\"default\":true,"
    "\"deprecated\":" BOOLEAN ",\"readOnly\":" BOOLEAN ",\"writeOnly\":" BOOLEAN ","
    "\"examples\":{\"type\":\"array\",\"items\":true}}}";

static const char format_2020[] = "{" DIALECT_2020 "\"$id\":\"" BASE_2020
                                  "meta/format-annotation\"," VOCABULARY_2020("format-annotation")
                                      KINDS "\"properties\":{\"format\":" STRING "}}";

static const char format_assertion_2020[] =
    "{" DIALECT_2020 "\"$id\":\"" BASE_2020
    "meta/format-assertion\"," VOCABULARY_2020("format-assertion") KINDS
    "\"properties\":{\"format\":" STRING "}}";

static const char content_2020[] =
    "{" DIALECT_2020 "\"$id\":\"" BASE_2020 "meta/content\"," VOCABULARY_2020("content") KINDS
    "\"properties\":{\"contentEncoding\":" STRING ","
    "\"contentMediaType\":" STRING ",\"contentSchema\":" META "}}";

#define SELF "{\"$ref\":\"#\"}"
#define SELF_MAP "{\"type\":\"object\",\"additionalProperties\":" SELF ",\"default\":{}}"
#define SELVES "{\"$ref\":\"#/definitions/schemaArray\"}"
#define COUNT_7 "{\"$ref\":\"#/definitions/count\"}"

static const char schema_7[] =
    "{\"$schema\":\"http://json-schema.org/draft-07/schema#\","
    "\"$id\":\"http://json-schema.org/draft-07/schema#\"," KINDS
    "\"definitions\":{\"schemaArray\":{\"type\":\"array\",\"minItems\":1,\"items\":" SELF "},"
    "\"count\":" COUNT ",\"simpleTypes\":" SIMPLE_TYPES ",\"stringArray\":" NAMES "},"
    "\"properties\":{\"$id\":{\"type\":\"string\",\"format\":\"uri-reference\"},"
    "\"$schema\":{\"type\":\"string\",\"format\":\"uri\"},"
    "\"$ref\":{\"type\":\"string\",\"format\":\"uri-reference\"},\"$comment\":" STRING ","
    "\"title\":" STRING ",\"description\":" STRING ",\"default\":true,\"readOnly\":" BOOLEAN ","
    "\"writeOnly\":" BOOLEAN ",\"examples\":{\"type\":\"array\",\"items\":true},"
    "\"multipleOf\":{\"type\":\"number\",\"exclusiveMinimum\":0},\"maximum\":" NUMBER ","
    "\"exclusiveMaximum\":" NUMBER ",\"minimum\":" NUMBER ",\"exclusiveMinimum\":" NUMBER ","
    "\"maxLength\":" COUNT_7 ",\"minLength\":" COUNT_7 ","
    "\"pattern\":{\"type\":\"string\",\"format\":\"regex\"},\"additionalItems\":" SELF ","
    "\"items\":{\"anyOf\":[" SELF "," SELVES "],\"default\":true},\"maxItems\":" COUNT_7 ","
    "\"minItems\":" COUNT_7 ",\"uniqueItems\":" BOOLEAN ",\"contains\":" SELF ","
    "\"maxProperties\":" COUNT_7 ",\"minProperties\":" COUNT_7 ","
    "\"required\":{\"$ref\":\"#/definitions/stringArray\"},\"additionalProperties\":" SELF ","
    "\"definitions\":" SELF_MAP ",\"properties\":" SELF_MAP ","
    "\"patternProperties\":{\"type\":\"object\",\"additionalProperties\":" SELF ","
    "\"propertyNames\":{\"format\":\"regex\"},\"default\":{}},"
    "\"dependencies\":{\"type\":\"object\",\"additionalProperties\":{\"anyOf\":[" SELF ","
    "{\"$ref\":\"#/definitions/stringArray\"}]}},\"propertyNames\":" SELF ",\"const\":true,"
    "\"enum\":{\"type\":\"array\",\"items\":true},"
    "\"type\":" TYPES("{\"$ref\":\"#/definitions/simpleTypes\"}") ",\"format\":" STRING ","
                                                                  "\"contentMediaType\":" STRING
                                                                  ",\"contentEncoding\":" STRING
                                                                  ",\"if\":" SELF ",\"then\":" SELF
                                                                  ",\"else\":" SELF
                                                                  ",\"allOf\":" SELVES
                                                                  ",\"anyOf\":" SELVES
                                                                  ",\"oneOf\":" SELVES ","
                                                                  "\"not\":" SELF
                                                                  "},\"default\":true}";

static const struct {
  const char *uri, *text;
  size_t len;
} documents[] = {
#define D(uri, text)                                                                               \
  { uri, text, sizeof(text) - 1 }
    D(BASE_2020 "schema", schema_2020),
    D(BASE_2020 "meta/core", core_2020),
    D(BASE_2020 "meta/applicator", applicator_2020),
    D(BASE_2020 "meta/unevaluated", unevaluated_2020),
    D(BASE_2020 "meta/validation", validation_2020),
    D(BASE_2020 "meta/meta-data", meta_data_2020),
    D(BASE_2020 "meta/format-annotation", format_2020),
    D(BASE_2020 "meta/format-assertion", format_assertion_2020),
    D(BASE_2020 "meta/content", content_2020),
    D("http://json-schema.org/draft-07/schema", schema_7),
#undef D
};

const char *idem__metaschema(const char *uri, size_t len, size_t *text_len) {
  for (size_t i = 0; i < sizeof documents / sizeof *documents; i++) {
    if (strlen(documents[i].uri) != len || memcmp(documents[i].uri, uri, len) != 0) continue;
    *text_len = documents[i].len;
    return documents[i].text;
  }
  return NULL;
}
