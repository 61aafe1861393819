/* keyword.h - the keywords of both drafts, as one table.
 * Each row: name in C, name in JSON, the vocabulary it belongs to, the drafts that know it. Shorter
 * names come first: that is how keyword.c finds them. */
#ifndef IDEM_SCHEMA_KEYWORD_H
#define IDEM_SCHEMA_KEYWORD_H

#include <stddef.h>
#include <stdint.h>

enum { DRAFT_7 = 1, DRAFT_2020 = 2, DRAFT_BOTH = 3 };
enum {
  VOCABULARY_CORE = 1,
  VOCABULARY_APPLICATOR = 2,
  VOCABULARY_VALIDATION = 4,
  VOCABULARY_UNEVALUATED = 8,
  VOCABULARY_FORMAT = 16,        /* annotation or assertion: the keyword is known */
  VOCABULARY_FORMAT_ASSERT = 32, /* the dialect itself asserts formats */
  VOCABULARY_CONTENT = 64,
  VOCABULARY_META = 128,
  VOCABULARY_ALL = 255 - VOCABULARY_FORMAT_ASSERT
};

#define IDEM_SCHEMA_KEYWORDS(K)                                                                    \
  K(IF, "if", APPLICATOR, BOTH)                                                                    \
  K(ID, "$id", CORE, BOTH)                                                                         \
  K(NOT, "not", APPLICATOR, BOTH)                                                                  \
  K(REF, "$ref", CORE, BOTH)                                                                       \
  K(TYPE, "type", VALIDATION, BOTH)                                                                \
  K(ENUM, "enum", VALIDATION, BOTH)                                                                \
  K(THEN, "then", APPLICATOR, BOTH)                                                                \
  K(ELSE, "else", APPLICATOR, BOTH)                                                                \
  K(DEFS, "$defs", CORE, 2020)                                                                     \
  K(CONST, "const", VALIDATION, BOTH)                                                              \
  K(ITEMS, "items", APPLICATOR, BOTH)                                                              \
  K(ALL_OF, "allOf", APPLICATOR, BOTH)                                                             \
  K(ANY_OF, "anyOf", APPLICATOR, BOTH)                                                             \
  K(ONE_OF, "oneOf", APPLICATOR, BOTH)                                                             \
  K(FORMAT, "format", FORMAT, BOTH)                                                                \
  K(SCHEMA, "$schema", CORE, BOTH)                                                                 \
  K(ANCHOR, "$anchor", CORE, 2020)                                                                 \
  K(MINIMUM, "minimum", VALIDATION, BOTH)                                                          \
  K(MAXIMUM, "maximum", VALIDATION, BOTH)                                                          \
  K(PATTERN, "pattern", VALIDATION, BOTH)                                                          \
  K(DEFAULT, "default", META, BOTH)                                                                \
  K(COMMENT, "$comment", CORE, BOTH)                                                               \
  K(MIN_ITEMS, "minItems", VALIDATION, BOTH)                                                       \
  K(MAX_ITEMS, "maxItems", VALIDATION, BOTH)                                                       \
  K(REQUIRED, "required", VALIDATION, BOTH)                                                        \
  K(CONTAINS, "contains", APPLICATOR, BOTH)                                                        \
  K(MIN_LENGTH, "minLength", VALIDATION, BOTH)                                                     \
  K(MAX_LENGTH, "maxLength", VALIDATION, BOTH)                                                     \
  K(MULTIPLE_OF, "multipleOf", VALIDATION, BOTH)                                                   \
  K(PROPERTIES, "properties", APPLICATOR, BOTH)                                                    \
  K(DYNAMIC_REF, "$dynamicRef", CORE, 2020)                                                        \
  K(VOCABULARY, "$vocabulary", CORE, 2020)                                                         \
  K(DEFINITIONS, "definitions", CORE, BOTH)                                                        \
  K(UNIQUE_ITEMS, "uniqueItems", VALIDATION, BOTH)                                                 \
  K(MIN_CONTAINS, "minContains", VALIDATION, 2020)                                                 \
  K(MAX_CONTAINS, "maxContains", VALIDATION, 2020)                                                 \
  K(PREFIX_ITEMS, "prefixItems", APPLICATOR, 2020)                                                 \
  K(DEPENDENCIES, "dependencies", APPLICATOR, BOTH)                                                \
  K(MIN_PROPERTIES, "minProperties", VALIDATION, BOTH)                                             \
  K(MAX_PROPERTIES, "maxProperties", VALIDATION, BOTH)                                             \
  K(PROPERTY_NAMES, "propertyNames", APPLICATOR, BOTH)                                             \
  K(CONTENT_SCHEMA, "contentSchema", CONTENT, 2020)                                                \
  K(DYNAMIC_ANCHOR, "$dynamicAnchor", CORE, 2020)                                                  \
  K(ADDITIONAL_ITEMS, "additionalItems", APPLICATOR, 7)                                            \
  K(EXCLUSIVE_MINIMUM, "exclusiveMinimum", VALIDATION, BOTH)                                       \
  K(EXCLUSIVE_MAXIMUM, "exclusiveMaximum", VALIDATION, BOTH)                                       \
  K(DEPENDENT_SCHEMAS, "dependentSchemas", APPLICATOR, 2020)                                       \
  K(UNEVALUATED_ITEMS, "unevaluatedItems", UNEVALUATED, 2020)                                      \
  K(DEPENDENT_REQUIRED, "dependentRequired", VALIDATION, 2020)                                     \
  K(PATTERN_PROPERTIES, "patternProperties", APPLICATOR, BOTH)                                     \
  K(ADDITIONAL_PROPERTIES, "additionalProperties", APPLICATOR, BOTH)                               \
  K(UNEVALUATED_PROPERTIES, "unevaluatedProperties", UNEVALUATED, 2020)

typedef enum keyword {
  KEYWORD_NONE, /* unknown, or a place outside the table */
#define K(name, text, vocabulary, draft) KEYWORD_##name,
  IDEM_SCHEMA_KEYWORDS(K)
#undef K
      KEYWORD_COUNT
} keyword;

keyword idem__keyword_find(const char *text, size_t len);
const char *idem__keyword_text(keyword k); /* "false" for KEYWORD_NONE */
uint8_t idem__keyword_vocabulary(keyword k);
uint8_t idem__keyword_drafts(keyword k);

#endif
