-- cd rocks/llm && luarocks --lua-version 5.4 make
rockspec_format = "3.0"
package = "tlua-llm"
version = "scm-1"
source = {url = "git+file://."}
description = {
   summary = "Runs language models in GGUF files, with the names of llama-cpp-python",
   license = "MIT",
}
dependencies = {"lua ~> 5.4", "tlua", "tlua-text"}
build = {
   type = "builtin",
   modules = {
      ["tlua.llm.Batch"] = "Batch.lua",
      ["tlua.llm.Model"] = "Model.lua",
      ["tlua.llm.architectures"] = "architectures.lua",
      ["tlua.llm.command"] = "command.lua",
      ["tlua.llm.drafts"] = "drafts.lua",
      ["tlua.llm.grammar"] = "grammar.lua",
      ["tlua.llm"] = "init.lua",
      ["tlua.llm.json_schema"] = "json_schema.lua",
      ["tlua.llm.layers"] = "layers.lua",
      ["tlua.llm.loading"] = "loading.lua",
      ["tlua.llm.sampling"] = "sampling.lua",
      ["tlua.llm.scheduler"] = "scheduler.lua",
      ["tlua.llm.state"] = "state.lua",
      ["tlua.llm.text_stream"] = "text_stream.lua",
      ["tlua.llm.tokenizer"] = "tokenizer.lua",
      ["tlua.llm.vocabulary"] = "vocabulary.lua",
   },
}
