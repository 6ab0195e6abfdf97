#include "app/civil_time.h"

#include "port/clock.h"

namespace quire::app {

chat::CivilTime civil_time() {
  const std::tm now = port::local_time();
  return {.year = now.tm_year + 1900,
          .month = now.tm_mon + 1,
          .day = now.tm_mday,
          .hour = now.tm_hour,
          .minute = now.tm_min,
          .second = now.tm_sec};
}

}  // namespace quire::app
