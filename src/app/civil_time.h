// The clock on the wall, as chat templates ask for it.
#pragma once

#include "chat/template.h"

namespace quire::app {

[[nodiscard]] chat::CivilTime civil_time();

}  // namespace quire::app
