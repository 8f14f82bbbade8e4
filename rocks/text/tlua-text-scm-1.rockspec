-- cd rocks/text && luarocks --lua-version 5.4 make
rockspec_format = "3.0"
package = "tlua-text"
version = "scm-1"
source = {url = "git+file://."}
description = {
   summary = "Tokenizers: from text to numbers and back",
   license = "MIT",
}
dependencies = {"lua ~> 5.4", "tlua"}
build = {
   type = "builtin",
   modules = {
      ["tlua.text.BPE"] = "BPE.lua",
      ["tlua.text.Encoding"] = "Encoding.lua",
      ["tlua.text.Tokenizer"] = "Tokenizer.lua",
      ["tlua.text"] = "init.lua",
      ["tlua.text.tokenizer.added"] = "tokenizer/added.lua",
      ["tlua.text.tokenizer.bpe"] = "tokenizer/bpe.lua",
      ["tlua.text.tokenizer.bytes"] = "tokenizer/bytes.lua",
      ["tlua.text.tokenizer.characters"] = "tokenizer/characters.lua",
      ["tlua.text.tokenizer.charsmap"] = "tokenizer/charsmap.lua",
      ["tlua.text.tokenizer.chunks"] = "tokenizer/chunks.lua",
      ["tlua.text.tokenizer.classes"] = "tokenizer/classes.lua",
      ["tlua.text.tokenizer.decoders"] = "tokenizer/decoders.lua",
      ["tlua.text.tokenizer.fields"] = "tokenizer/fields.lua",
      ["tlua.text.tokenizer.forms"] = "tokenizer/forms.lua",
      ["tlua.text.tokenizer.heap"] = "tokenizer/heap.lua",
      ["tlua.text.tokenizer.loading"] = "tokenizer/loading.lua",
      ["tlua.text.tokenizer.models"] = "tokenizer/models.lua",
      ["tlua.text.tokenizer.normalizers"] = "tokenizer/normalizers.lua",
      ["tlua.text.tokenizer.pattern"] = "tokenizer/pattern.lua",
      ["tlua.text.tokenizer.pieces"] = "tokenizer/pieces.lua",
      ["tlua.text.tokenizer.pre_tokenizers"] = "tokenizer/pre_tokenizers.lua",
      ["tlua.text.tokenizer.processors"] = "tokenizer/processors.lua",
      ["tlua.text.tokenizer.regex"] = "tokenizer/regex.lua",
      ["tlua.text.tokenizer.scripts"] = "tokenizer/scripts.lua",
      ["tlua.text.tokenizer.sentencepiece"] = "tokenizer/sentencepiece.lua",
      ["tlua.text.vocabulary"] = "vocabulary.lua",
   },
}
