// Part of every plug-in: what it was built with. The program reads this from the file and compares
// it before it opens the plug-in.
#include "core/plugin_abi.h"

extern "C" __attribute__((used, visibility("default"))) const char sgtrain_plugin_abi[] =
    SGTRAIN_ABI_MARK SGTRAIN_ABI;
