/* content.h - resources from files and directories, and prompts from text. */
#ifndef IDEM_CLI_CONTENT_H
#define IDEM_CLI_CONTENT_H

#include "config/config.h"
#include "listing.h"
#include "program/hidden.h"

#include <idem/mcp.h>

/* One resource of the configuration, opened. */
typedef struct open_resource {
  const resource_config *config;
  config_source *source;
  hidden_files *hidden; /* what is never served */
  int folder;           /* what files are opened beneath */
  char uri[192];        /* of a file, or what comes before a directory's path */
  file_list files;      /* of a directory, as they were listed */
  file_stamp stamp;     /* of a file */
  bool dirty;           /* something has changed in a folder that is watched for it */
} open_resource;

typedef struct content_host {
  serve_config *config;
  open_resource *resources;
} content_host;

/* `hidden` outlives it. */
void content_init(content_host *self, serve_config *config, hidden_files *hidden);
/* False: something could not be added, and that was told. */
bool content_fill(content_host *self, idem_server *server);
void content_deinit(content_host *self);
/* Has the folders of its files watched. */
void content_watch(content_host *self, watcher *watches);
/* Looks where something has changed: lists what came, no longer what went, tells who subscribed. */
void content_look(content_host *self, idem_server *server, watcher *watches);
void content_unwatch(content_host *self, watcher *watches);

/* prompts.c; `user` is a prompt_config. */
bool prompts_fill(serve_config *config, idem_server *server);

#endif
