/* For drivers that include the header of the WDK by its name. */
#include "campanile_ddi.h"
