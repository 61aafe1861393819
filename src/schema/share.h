/* share.h - one compiled schema for several owners within the library.
 * A program is immutable, so whoever has the same text may have the same program. */
#ifndef IDEM_SCHEMA_SHARE_H
#define IDEM_SCHEMA_SHARE_H

#include <idem/schema.h>

/* Another owner: the schema lives until each has called idem_schema_free. */
idem_schema *idem__schema_share(idem_schema *schema);

#endif
