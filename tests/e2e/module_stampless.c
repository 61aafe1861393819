/* module_stampless.c - a module from before there were stamps: its table is there, and whoever called one of its functions
 * would end. For test_serve_modules.c. */
extern const void *const idem__sqlite_module_table[8];
const void *const idem__sqlite_module_table[8] = {0};
