-- cd rocks/notebook && luarocks --lua-version 5.4 make
rockspec_format = "3.0"
package = "tlua-notebook"
version = "scm-1"
source = {url = "git+file://."}
description = {
   summary = "A Jupyter kernel for tlua, and notebooks that run without Jupyter",
   license = "MIT",
}
dependencies = {"lua ~> 5.4", "tlua"}
build = {
   type = "builtin",
   modules = {
      ["tlua.notebook.channels"] = "channels.lua",
      ["tlua.notebook.command"] = "command.lua",
      ["tlua.notebook.document"] = "document.lua",
      ["tlua.notebook.guard"] = "guard.lua",
      ["tlua.notebook.html"] = "html.lua",
      ["tlua.notebook"] = "init.lua",
      ["tlua.notebook.input"] = "input.lua",
      ["tlua.notebook.kernel"] = "kernel.lua",
      ["tlua.notebook.kernelspec"] = "kernelspec.lua",
      ["tlua.notebook.messages"] = "messages.lua",
      ["tlua.notebook.mime"] = "mime.lua",
      ["tlua.notebook.session"] = "session.lua",
      ["tlua.notebook.thread"] = "thread.lua",
      ["tlua.notebook.vocabulary"] = "vocabulary.lua",
   },
}
