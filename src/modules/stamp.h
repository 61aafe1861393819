/* stamp.h - which headers a module was made with. A module and the program that loads it share structs, so they must
 * come from the same ones: both hold this text, written by the build (cmake/stamp.cmake), and the loader compares.
 * See docs/internals/modules.md. */
#ifndef IDEM_MODULES_STAMP_H
#define IDEM_MODULES_STAMP_H

#define IDEM__STAMP_LEAD "idem module "
#define IDEM__STAMP_SYMBOL "idem__module_stamp"
#define IDEM__STAMP_MAX 80 /* bytes of it, its end included */

#ifdef IDEM_MODULE /* nothing else of a module is visible but its table */
__attribute__((visibility("default")))
#endif
extern const char idem__module_stamp[];

#endif
