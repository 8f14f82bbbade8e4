-- cd rocks/serve && luarocks --lua-version 5.4 make
rockspec_format = "3.0"
package = "tlua-serve"
version = "scm-1"
source = {url = "git+file://."}
description = {
   summary = "Serves models over HTTP, with KServe's and OpenAI's protocols",
   license = "MIT",
}
dependencies = {"lua ~> 5.4", "tlua", "tlua-llm", "tlua-text"}
build = {
   type = "builtin",
   modules = {
      ["tlua.serve.command"] = "command.lua",
      ["tlua.serve.constraints"] = "constraints.lua",
      ["tlua.serve.control"] = "control.lua",
      ["tlua.serve.counters"] = "counters.lua",
      ["tlua.serve.datatypes"] = "datatypes.lua",
      ["tlua.serve.engine"] = "engine.lua",
      ["tlua.serve.errors"] = "errors.lua",
      ["tlua.serve.http"] = {
         sources = {
            "access.c", "batches.c", "binding.c", "binding_request.c", "binding_server.c", "connections.c",
            "http.c", "microhttpd.c", "numbers.c", "queues.c", "replies.c", "requests.c",
            "routes.c", "server.c",
         },
      },
      ["tlua.serve"] = "init.lua",
      ["tlua.serve.language"] = "language.lua",
      ["tlua.serve.library"] = "library.lua",
      ["tlua.serve.logprobs"] = "logprobs.lua",
      ["tlua.serve.metrics"] = "metrics.lua",
      ["tlua.serve.models"] = "models.lua",
      ["tlua.serve.page"] = "page.lua",
      ["tlua.serve.pieces"] = "pieces.lua",
      ["tlua.serve.program"] = "program.lua",
      ["tlua.serve.repository"] = "repository.lua",
      ["tlua.serve.request"] = "request.lua",
      ["tlua.serve.script"] = "script.lua",
      ["tlua.serve.settings"] = "settings.lua",
      ["tlua.serve.thread"] = "thread.lua",
      ["tlua.serve.vocabulary"] = "vocabulary.lua",
      ["tlua.serve.worker"] = "worker.lua",
   },
}
