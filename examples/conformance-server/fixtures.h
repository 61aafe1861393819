/* fixtures.h - what the official conformance suite of the Model Context Protocol expects to find on a
 * server, one file for each group. Written with the public headers alone, as any server would be. */
#ifndef CONFORMANCE_FIXTURES_H
#define CONFORMANCE_FIXTURES_H

#include <idem/uv.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* JSON as a C string: the preprocessor does the quoting. */
#define JSON(...) #__VA_ARGS__
#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Each registers its group; false: it could not, and stderr says why. */
bool content_register(idem_server *server);
bool steps_register(idem_server *server);
bool asking_register(idem_server *server);
bool rounds_register(idem_server *server);
bool changes_register(idem_server *server);
bool tasks_register(idem_server *server);
bool resources_register(idem_server *server);
bool prompts_register(idem_server *server);

bool tools_add(idem_server *server, const idem_tool *tools, size_t count);
bool prompts_add(idem_server *server, const idem_prompt *prompts, size_t count);

/* A picture of one red pixel and a moment of silence. */
extern const unsigned char sample_png[];
extern const size_t sample_png_len;
extern const unsigned char sample_wav[];
extern const size_t sample_wav_len;

/* ------------------------------------------------------------------------ helpers.c */

/* Answers a tool with formatted text. */
void say(idem_request *request, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Work in steps: `step` runs every `every_ms` until it returns true, having ended the request. A
 * request that nobody wants any more is dropped and counted. */
typedef bool (*step_fn)(idem_request *request, unsigned number, void *user);
void take_steps(idem_request *request, uint64_t every_ms, step_fn step, void *user);
unsigned cancelled_count(void);

/* The member of an accepted form, or NULL: not accepted, or not a string. */
const char *accepted_string(const idem_request *request, const char *key, const char *member);
/* The text of a sampled message, or NULL. */
const char *sampled_text(const idem_request *request, const char *key);
/* Params of sampling/createMessage for one question; to be freed. NULL: no memory. */
char *sampling_params(const char *question);

#endif
