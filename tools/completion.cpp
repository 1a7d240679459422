// SPDX-License-Identifier: Apache-2.0
// `catenary completion`, and the hidden `catenary man`: what is generated from the commands.
#include "tools/completion.h"

#include <CLI/CLI.hpp>

#include "tools/command.h"
#include "tools/man_page.h"
#include "tools/output.h"

namespace catenary::tools {

void add_completion(CLI::App& app) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("completion", "Print a completion script for a shell to source");
  command->add_option("shell", *shell, "As in `source <(catenary completion bash)`")
      ->required()
      ->check(CLI::IsMember(std::vector<std::string>{"bash", "zsh", "fish"}));
  command->callback([&app, shell] {
    const CommandFacts root = command_tree(app);
    write_stdout(*shell == "bash"  ? bash_completion(root)
                 : *shell == "zsh" ? zsh_completion(root)
                                   : fish_completion(root));
  });
  CLI::App* man = app.add_subcommand("man", "Print the man page, which the build installs");
  man->group("");  // hidden
  man->callback([&app] { write_stdout(man_page(command_tree(app))); });
}

}  // namespace catenary::tools
