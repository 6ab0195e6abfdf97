// The key space of a request: what must be equal beside the tokens before two requests may share keys and values.
//
// One builder for all fields, so that no two different tuples give the same bytes: each field is its tag, the length of its content
// and the content. What is the same for the whole process (model, arithmetic, KV format, RoPE settings) is no field: a cache serves
// one engine.
#pragma once

#include <string>
#include <string_view>

namespace quire::engine {

// Who may share. Absent fields are empty; an empty field and an absent one are the same.
struct KeySpaceFields {
  std::string_view cache_salt = {};  // the tenant's
  std::string_view adapter = {};     // an id that changes whenever the adapter's content does
  std::string_view purpose = {};     // what never shares with requests, such as scoring
};

[[nodiscard]] std::string key_space(const KeySpaceFields& fields);

}  // namespace quire::engine
