/* content.c - tools that answer at once: every kind of content, a failure, a schema that must survive
 * being listed, and an argument that is mirrored in a header. The first one takes no arguments: the
 * suite calls whatever is listed first. */
#include "fixtures.h"

#include <stdlib.h>

static const char embedded_text[] = "This is an embedded resource content.";

static void simple_text(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  say(request, "This is a simple text response for testing.");
}

/* Sends the content if it could be built. */
static void reply(idem_request *request, yyjson_mut_val *content, bool built) {
  if (built)
    idem_tool_reply(request, &(idem_tool_result){.content = content});
  else
    idem_request_drop(request);
}

static void image(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  yyjson_mut_doc *doc = idem_request_doc(request);
  yyjson_mut_val *content = yyjson_mut_arr(doc);
  reply(request, content,
        idem_content_image(doc, content, sample_png, sample_png_len, "image/png"));
}

static void audio(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  yyjson_mut_doc *doc = idem_request_doc(request);
  yyjson_mut_val *content = yyjson_mut_arr(doc);
  reply(request, content,
        idem_content_audio(doc, content, sample_wav, sample_wav_len, "audio/wav"));
}

static void embedded(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  yyjson_mut_doc *doc = idem_request_doc(request);
  yyjson_mut_val *content = yyjson_mut_arr(doc);
  reply(request, content,
        idem_content_resource_text(doc, content, "test://embedded-resource", "text/plain",
                                   embedded_text, sizeof embedded_text - 1));
}

static void mixed(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  static const char text[] = "Multiple content types test:";
  static const char data[] = "{\"test\":\"data\",\"value\":123}";
  yyjson_mut_doc *doc = idem_request_doc(request);
  yyjson_mut_val *content = yyjson_mut_arr(doc);
  reply(request, content,
        idem_content_text(doc, content, text, sizeof text - 1) &&
            idem_content_image(doc, content, sample_png, sample_png_len, "image/png") &&
            idem_content_resource_text(doc, content, "test://mixed-content-resource",
                                       "application/json", data, sizeof data - 1));
}

static void failing(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  idem_tool_failed(request, "This tool intentionally returns an error for testing");
}

static void shown_schema(idem_request *request, yyjson_val *arguments, void *user) {
  (void)user;
  char *text = yyjson_val_write(arguments, 0, NULL);
  say(request, "JSON Schema 2020-12 tool called with: %s", text ? text : "");
  free(text);
}

static void region(idem_request *request, yyjson_val *arguments, void *user) {
  (void)user;
  const char *name = yyjson_get_str(yyjson_obj_get(arguments, "region"));
  say(request, "region: %s", name ? name : "none");
}

static const char schema_2020_12[] = JSON({
  "$schema" : "https://json-schema.org/draft/2020-12/schema",
  "type" : "object",
  "$defs" : {
    "address" : {
      "$anchor" : "addressDef",
      "type" : "object",
      "properties" : {"street" : {"type" : "string"}, "city" : {"type" : "string"}}
    }
  },
  "properties" : {
    "name" : {"type" : "string"},
    "address" : {"$ref" : "#/$defs/address"},
    "contactMethod" : {"type" : "string", "enum" : [ "phone", "email" ]},
    "phone" : {"type" : "string"},
    "email" : {"type" : "string"}
  },
  "allOf" : [ {"anyOf" : [ {"required" : ["phone"]}, {"required" : ["email"]} ]} ],
  "if" : {"properties" : {"contactMethod" : {"const" : "phone"}}, "required" : ["contactMethod"]},
  "then" : {"required" : ["phone"]},
  "else" : {"required" : ["email"]},
  "additionalProperties" : false
});

static const char promise[] =
    JSON({"type" : "object", "properties" : {"sum" : {"type" : "integer"}}, "required" : ["sum"]});

static void promised(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  yyjson_mut_doc *doc = idem_request_doc(request);
  yyjson_mut_val *sum = yyjson_mut_obj(doc);
  yyjson_mut_obj_add_int(doc, sum, "sum", 3);
  idem_tool_reply(request, &(idem_tool_result){.structured = sum});
}

/* What clients would refuse the engine does not send: they hear of an internal error, the log of the tool. */
static void broken(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  idem_tool_text(request, "three", 5);
}

static const idem_tool tools[] = {
    {.name = "test_simple_text",
     .description = "Answers with a simple text",
     .annotations = JSON({"readOnlyHint" : true}),
     .fn = simple_text},
    {.name = "test_image_content", .description = "Answers with an image", .fn = image},
    {.name = "test_audio_content", .description = "Answers with a sound", .fn = audio},
    {.name = "test_embedded_resource", .description = "Answers with a resource", .fn = embedded},
    {.name = "test_multiple_content_types",
     .description = "Answers with a text, an image and a resource",
     .fn = mixed},
    {.name = "test_error_handling", .description = "Fails, as a tool does", .fn = failing},
    {.name = "json_schema_2020_12_tool",
     .description = "Has a schema with what only JSON Schema 2020-12 knows",
     .input_schema = schema_2020_12,
     .fn = shown_schema},
    {.name = "test_x_mcp_header",
     .description = "Has an argument that HTTP clients mirror in a header",
     .input_schema = JSON({
       "type" : "object",
       "properties" : {"region" : {"type" : "string", "x-mcp-header" : "Region"}}
     }),
     .fn = region},
    {.name = "test_kept_promise",
     .description = "Answers as its output schema says",
     .output_schema = promise,
     .fn = promised},
    {.name = "test_broken_promise",
     .description = "Does not",
     .output_schema = promise,
     .fn = broken},
};

bool content_register(idem_server *server) { return tools_add(server, tools, COUNT(tools)); }
