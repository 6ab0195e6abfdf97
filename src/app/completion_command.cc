// quire completion SHELL: a script that completes subcommands and flags, made from the command line's own description.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "app/command.h"
#include "app/output.h"

namespace quire::app {
namespace {

using Lines = std::vector<const CLI::App*>;

// The commands below one; groups of options, which have no name, are not among them.
Lines commands_below(const CLI::App& line) {
  return line.get_subcommands([](const CLI::App* sub) { return !sub->get_name().empty(); });
}

void add_flags(const CLI::App& line, std::vector<std::string>& words) {
  const auto add = [&](const std::string& word) {
    if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
  };
  for (const CLI::Option* option : line.get_options()) {
    for (const std::string& name : option->get_lnames()) add("--" + name);
    for (const std::string& name : option->get_snames()) add("-" + name);
  }
}

// All words that may follow a command: the commands below it and its flags, those in groups too.
std::vector<std::string> words_after(const CLI::App& line) {
  std::vector<std::string> words;
  for (const CLI::App* sub : commands_below(line)) words.push_back(sub->get_name());
  add_flags(line, words);
  for (const CLI::App* group : line.get_subcommands([](const CLI::App* sub) { return sub->get_name().empty(); }))
    add_flags(*group, words);
  return words;
}

// Calls visit(path of names below the program, words) for the program and each of its commands.
template <typename Visit>
void for_each_line(const CLI::App& line, const std::string& path, const Visit& visit) {
  visit(path, words_after(line));
  for (const CLI::App* sub : commands_below(line)) {
    for_each_line(*sub, path.empty() ? sub->get_name() : path + " " + sub->get_name(), visit);
  }
}

std::string bash_script(const CLI::App& root) {
  std::string cases;
  for_each_line(root, "", [&](const std::string& path, const std::vector<std::string>& words) {
    cases += fmt::format("    '{}') words='{}' ;;\n", path, fmt::join(words, " "));
  });
  return fmt::format(R"(_quire() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" path='' word words='' IFS=$'\n'
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$word" in -*) break ;; esac
    path="${{path:+$path }}$word"
  done
  case "$path" in
{}  esac
  COMPREPLY=($(compgen -W "${{words// /$IFS}}" -- "$current"))
  if [[ $current != -* ]]; then COMPREPLY+=($(compgen -f -- "$current")); fi
}}
complete -o filenames -F _quire quire
)",
                     cases);
}

std::string fish_script(const CLI::App& root) {
  std::string script = "complete -c quire -e\n";
  for_each_line(root, "", [&](const std::string& path, const std::vector<std::string>& words) {
    const std::string condition =
        path.empty() ? "__fish_use_subcommand" : fmt::format("__fish_seen_subcommand_from {}", path.substr(path.rfind(' ') + 1));
    for (const std::string& word : words) script += fmt::format("complete -c quire -n '{}' -a '{}'\n", condition, word);
  });
  return script;
}

Status print_completion(const CLI::App& root, const std::string& shell) {
  if (shell == "fish") {
    print_output("{}", fish_script(root));
  } else {
    if (shell == "zsh") print_output("autoload -U +X bashcompinit && bashcompinit\n");
    print_output("{}", bash_script(root));
  }
  return {};
}

}  // namespace

Command completion_command(CLI::App& root) {
  auto shell = std::make_shared<std::string>();
  CLI::App* line = root.add_subcommand("completion", "Print a script that completes commands and flags in a shell");
  line->add_option("shell", *shell, "bash, zsh or fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  line->footer("Example: source <(quire completion bash)");
  return {.line = line, .run = [shell, &root] { return print_completion(root, *shell); }};
}

}  // namespace quire::app
