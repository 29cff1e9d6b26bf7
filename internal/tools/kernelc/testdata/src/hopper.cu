// targets: sm_90a
#include "part.cuh"
#include "elsewhere.h"
