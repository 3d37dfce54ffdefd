#pragma once

/// What the shared library shows to others; everything else in it is hidden.
#define ORTHOBATCH_API __attribute__((visibility("default")))
