#include "service/sync.h"
