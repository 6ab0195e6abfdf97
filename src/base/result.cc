#include "base/result.h"

namespace quire {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument: return "invalid_argument";
    case ErrorCode::kNotFound: return "not_found";
    case ErrorCode::kCorrupt: return "corrupt";
    case ErrorCode::kUnsupported: return "unsupported";
    case ErrorCode::kOutOfMemory: return "out_of_memory";
    case ErrorCode::kLimit: return "limit";
    case ErrorCode::kIo: return "io";
  }
  check_failed(__FILE__, __LINE__, "known ErrorCode");
}

Error at(std::string_view where, Error error) {
  error.message.insert(0, std::string(where) + ": ");
  return error;
}

}  // namespace quire
