/* The answer of a call that fails (base.h): for a truth value, a number and a pointer. */
#include "check.h"

#include "base/base.h"

#include <stdint.h>

static uint64_t no_id(void) { return ts_fail(ESTALE); }
static char *no_text(void) { return ts_fail_null(EINVAL); }

int main(void) {
    errno = 0;
    SUP_CHECK(!ts_fail(ENOMEM) && errno == ENOMEM, "errno is %d", errno);
    SUP_CHECK(no_id() == 0 && errno == ESTALE, "errno is %d", errno);
    SUP_CHECK(no_text() == NULL && errno == EINVAL, "errno is %d", errno);
    return 0;
}
