/* tslab run --plan: what `tslab advise --json` says of sites, for this machine's files. */
#ifndef TSLAB_PLAN_H
#define TSLAB_PLAN_H

/* Sets TSLAB_PLAN (src/malloc/plan.h). -1: done; else an exit code, and it is said what is wrong: with the plan, or
   that a file is of another build. */
int plan_apply(const char *file);

#endif
