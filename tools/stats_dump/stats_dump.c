/* stats_dump: what `tslab stats` and `tslab doctor` do, under the name that scripts know. */
#include "common/target.h"
#include "tslab/report.h"

int main(int argc, char **argv) {
    tool_name = "stats_dump";
    return tool_end(ts_stats_dump(argc, argv));
}
