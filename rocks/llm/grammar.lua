-- grammar.lua - grammars that constrain a generated text. They are written in GBNF, llama.cpp's
-- notation, or as JSON schemas, which json_schema.lua translates to GBNF.
--
-- A grammar is compiled to an automaton that reads bytes. A state of the automaton is a set of
-- stacks. Equal stacks are represented by the same table, and so are equal states. So the set of
-- allowed tokens is computed only once for each state.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"

local M = {}

-- Reading GBNF ----------------------------------------------------------------------------------

local Parser = {}
Parser.__index = Parser

function Parser:fail(why)
   local line = 1
   for _ in self.text:sub(1, self.at - 1):gmatch "\n" do line = line + 1 end
   error({grammar = ("line %d: %s"):format(line, why)}, 0)
end

-- Skips spaces and comments of a grammar. Newlines are skipped only if `lines` is true.
function Parser:space(lines)
   while true do
      local _, last = self.text:find(lines and "^%s+" or "^[ \t]+", self.at)
      if not last then _, last = self.text:find("^#[^\n]*", self.at) end
      if not last then return end
      self.at = last + 1
   end
end

function Parser:accept(pattern)
   local first, last, capture = self.text:find("^" .. pattern, self.at)
   if not first then return nil end
   self.at = last + 1
   return capture or self.text:sub(first, last)
end

local escapes <const> = {n = 10, r = 13, t = 9}

-- Reads one character of a literal or of a character class. Returns its code point.
function Parser:character()
   if self:accept "\\" then
      for letter, digits in pairs {x = 2, u = 4, U = 8} do
         if self:accept(letter) then
            local hex = self:accept(("(%s)"):format(("%x"):rep(digits)))
            if not hex then self:fail(("\\%s: expected %d digits"):format(letter, digits)) end
            return tonumber(hex, 16)
         end
      end
      local c = self:accept "."
      return c and (escapes[c] or c:byte()) or self:fail "the text ends after a backslash"
   end
   local c = self:accept(utf8.charpattern)
   if not c or c == "" or not utf8.len(c) then self:fail "expected a character of UTF-8" end
   return utf8.codepoint(c)
end

function Parser:class()
   local ranges, negated = {}, self:accept "%^" ~= nil
   while not self:accept "%]" do
      if self.at > #self.text then self:fail "a class without ]" end
      local low = self:character()
      local high = low
      if self.text:find("^%-[^%]]", self.at) then
         self.at = self.at + 1
         high = self:character()
      end
      if high < low then self:fail "a range of characters that ends before it begins" end
      ranges[#ranges + 1] = {low, high}
   end
   table.sort(ranges, function(a, b) return a[1] < b[1] end)
   if negated then
      local others, from = {}, 0
      for _, range in ipairs(ranges) do
         if range[1] > from then others[#others + 1] = {from, range[1] - 1} end
         from = math.max(from, range[2] + 1)
      end
      if from <= 0x10ffff then others[#others + 1] = {from, 0x10ffff} end
      ranges = others
   end
   return {kind = "class", ranges = ranges}
end

-- Reads the bounds of a repetition: {m,n}, {m,} or {m}. Returns both numbers.
function Parser:bounds()
   local low = self:accept "%s*(%d*)%s*"
   local high = low
   if self:accept "," then high = self:accept "%s*(%d*)%s*" end
   if not self:accept "}" or low == "" and high == "" then
      self:fail "expected {m}, {m,} or {m,n}"
   end
   local least, most = tonumber(low) or 0, tonumber(high)
   if least > 1000 or most and (most > 1000 or most < least) then
      self:fail "expected at most 1000 repetitions, the least first"
   end
   return least, most
end

function Parser:item(nested)
   local node
   if self:accept '"' then
      local list = {kind = "sequence"}
      while not self:accept '"' do
         if self.at > #self.text then self:fail "a literal without a closing quote" end
         local code = self:character()
         list[#list + 1] = {kind = "class", ranges = {{code, code}}}
      end
      node = list
   elseif self:accept "%[" then
      node = self:class()
   elseif self:accept "%(" then
      self:space(true)
      node = self:alternatives(true)
      self:space(true)
      if not self:accept "%)" then self:fail "expected )" end
   elseif self:accept "%." then
      node = {kind = "class", ranges = {{0, 0x10ffff}}}
   else
      local name = self:accept "[%a][%w_%-]*"
      if not name then return nil end
      node = {kind = "rule", name = name, at = self.at}
   end
   self:space(nested)
   while true do
      local least, most
      if self:accept "%*" then least = 0
      elseif self:accept "%+" then least = 1
      elseif self:accept "%?" then least, most = 0, 1
      elseif self:accept "{" then least, most = self:bounds()
      else return node end
      node = {kind = "repeat", node, least = least, most = most}
      self:space(nested)
   end
end

function Parser:alternatives(nested)
   local list = {kind = "choice"}
   repeat
      self:space(true)
      local sequence = {kind = "sequence"}
      while true do
         local item = self:item(nested)
         if not item then break end
         sequence[#sequence + 1] = item
      end
      list[#list + 1] = sequence
      -- A rule continues on the next line if the next line begins with |.
      local _, last = self.text:find("^%s*|", self.at)
      if last then self.at = last + 1 end
   until not last
   return #list == 1 and list[1] or list
end

local function parse(text)
   local self, rules = setmetatable({text = text, at = 1}, Parser), {}
   self:space(true)
   while self.at <= #text do
      local name = self:accept "[%a][%w_%-]*"
      if not name then self:fail "expected the name of a rule" end
      self:space()
      if not self:accept "::=" then self:fail(("rule %s: expected ::="):format(name)) end
      if rules[name] then self:fail(("rule %s occurs twice"):format(name)) end
      self:space(true)
      rules[name] = self:alternatives(false)
      self:space()
      if self.at <= #text and not self.text:find("^[\r\n]", self.at) then
         self:fail(("rule %s: unexpected %s"):format(name, self.text:sub(self.at, self.at)))
      end
      self:space(true)
   end
   return rules
end

-- The automaton ---------------------------------------------------------------------------------

-- Splits the characters from `low` to `high` into ranges whose UTF-8 encodings have equal length
-- and differ in such a way that each byte varies independently. Calls `add` for each range with a
-- list that has {lowest, highest} for each byte.
local function byte_ranges(low, high, add)
   for _, limit in ipairs {0x7f, 0x7ff, 0xffff} do
      if low <= limit and high > limit then
         byte_ranges(low, limit, add)
         byte_ranges(limit + 1, high, add)
         return
      end
   end
   if high < 0x80 then return add {{low, high}} end
   -- These lines cut the range so that in each part, all bytes after the first differing byte take
   -- all their values.
   for i = 1, 3 do
      local mask = (1 << 6 * i) - 1
      if low & ~mask ~= high & ~mask then
         if low & mask ~= 0 then
            byte_ranges(low, low | mask, add)
            byte_ranges((low | mask) + 1, high, add)
            return
         end
         if high & mask ~= mask then
            byte_ranges(low, (high & ~mask) - 1, add)
            byte_ranges(high & ~mask, high, add)
            return
         end
      end
   end
   local a, b, list = utf8.char(low), utf8.char(high), {}
   for i = 1, #a do list[i] = {a:byte(i), b:byte(i)} end
   add(list)
end

-- Compiles a syntax tree to a node. When the text has matched the tree, it continues with the node
-- `after`. A node has one of four forms: {low, high, after} reads a byte, {choices} branches,
-- {rule, after} calls a rule, and {ends = true} returns from a rule.
local compile

local function compile_class(ranges, after)
   local choices = {}
   for _, range in ipairs(ranges) do
      byte_ranges(range[1], math.min(range[2], 0x10ffff), function(list)
         local node = after
         for i = #list, 1, -1 do node = {low = list[i][1], high = list[i][2], after = node} end
         choices[#choices + 1] = node
      end)
   end
   return #choices == 1 and choices[1] or {choices = choices}
end

-- The largest size of a grammar: the number of its parts, where a part that is repeated n times
-- counts n times.
local most_parts <const> = 100000

function compile(self, tree, after)
   local kind = tree.kind
   self.parts = (self.parts or 0) + 1
   if self.parts > most_parts then
      error({grammar = ("expected at most %d parts, with repeated ones counted each time"):format(
         most_parts)}, 0)
   end
   if kind == "class" then return compile_class(tree.ranges, after) end
   if kind == "rule" then return {rule = tree.name, after = after} end
   if kind == "sequence" then
      for i = #tree, 1, -1 do after = compile(self, tree[i], after) end
      return after
   end
   if kind == "choice" then
      local choices = {}
      for i, part in ipairs(tree) do choices[i] = compile(self, part, after) end
      return {choices = choices}
   end
   local node = after
   if not tree.most then
      local loop = {choices = {}}
      loop.choices[1], loop.choices[2] = compile(self, tree[1], loop), after
      node = loop
   else
      for _ = tree.least + 1, tree.most do
         node = {choices = {compile(self, tree[1], node), after}}
      end
   end
   for _ = 1, tree.least do node = compile(self, tree[1], node) end
   return node
end

--- A grammar that constrains a generated text.
---
---     local Grammar = torch.llm.Grammar
---     local grammar = Grammar.from_string 'root ::= ("yes" | "no") "!"?'
---     print(grammar:matches "yes!", grammar:matches "maybe")
---     --> true	false
---@class llm.Grammar
---@field text string  the grammar in GBNF
local Grammar = class.class("llm.Grammar")
M.Grammar = Grammar

local function check_rules(rules)
   if not rules.root then error({grammar = "expected a rule named root"}, 0) end
   local function walk(tree, name)
      if tree.kind == "rule" and not rules[tree.name] then
         error({grammar = ("rule %s: there is no rule %s"):format(name, tree.name)}, 0)
      end
      for _, part in ipairs(tree) do walk(part, name) end
   end
   for name, tree in pairs(rules) do walk(tree, name) end
end

--- Reads a grammar in GBNF, llama.cpp's notation. The whole text must match the rule `root`.
---@param text string
---@return llm.Grammar
function Grammar.from_string(text)
   local name = "llm.Grammar.from_string"
   if type(text) ~= "string" then args.refuse(name, "text", "a string", text) end
   local self = Grammar()
   self.text = text
   local ok, why = pcall(function()
      local rules = parse(text)
      check_rules(rules)
      self.rules = {}
      for rule, tree in pairs(rules) do self.rules[rule] = compile(self, tree, {ends = true}) end
      self.stacks, self.states = setmetatable({}, {__mode = "k"}), {}
      self.first = self:_state {{node = {rule = "root", after = {ends = true}}}}
   end)
   if ok then return self end
   if type(why) ~= "table" or not why.grammar then error(why, 0) end
   return torch.raise(("%s: %s"):format(name, why.grammar))
end

--- Creates the grammar of JSON that obeys a schema. An empty schema allows any JSON.
---@param schema table|string  a table, or JSON
---@return llm.Grammar
function Grammar.from_json_schema(schema)
   return Grammar.from_string(require "tlua.llm.json_schema".to_gbnf(schema))
end

local count = 0

-- Returns the stack that has `node` on top of the stack `parent`. `parent` is nil for the empty
-- stack.
local function stack_of(self, node, parent)
   local by_parent = self.stacks[node]
   if not by_parent then
      by_parent = {}
      self.stacks[node] = by_parent
   end
   local key = parent or 0
   if not by_parent[key] then
      count = count + 1
      by_parent[key] = {node = node, parent = parent, id = count}
   end
   return by_parent[key]
end

-- Follows a node until a byte must be read. Collects in `out` all stacks that are reached and whose
-- top node reads a byte. Sets `out.accepts` if the text may end here.
local function follow(self, node, parent, out, seen, depth)
   if depth > 2000 then
      error({grammar = "2000 rules begin with one another, or a rule begins with itself, so that "
         .. "reading it would never end"}, 0)
   end
   if node.choices then
      local stack = stack_of(self, node, parent)
      if seen[stack] then return end
      seen[stack] = true
      for _, choice in ipairs(node.choices) do
         follow(self, choice, parent, out, seen, depth + 1)
      end
   elseif node.rule then
      local after = node.after
      -- A call at the end of a rule pushes nothing, so the stack does not grow if a rule ends with
      -- a call of itself.
      local next_parent = after.ends and parent or stack_of(self, after, parent)
      follow(self, self.rules[node.rule], next_parent, out, seen, depth + 1)
   elseif node.ends then
      if parent then
         follow(self, parent.node, parent.parent, out, seen, depth + 1)
      else
         out.accepts = true
      end
   else
      out[stack_of(self, node, parent)] = true
   end
end

-- Returns the state that is reached from the nodes in `list`, which has pairs {node, parent stack}.
function Grammar:_state(list)
   local out, seen = {}, {}
   for _, item in ipairs(list) do follow(self, item.node, item.parent, out, seen, 0) end
   local accepts, stacks, ids = out.accepts or false, {}, {}
   out.accepts = nil
   for stack in pairs(out) do stacks[#stacks + 1] = stack end
   table.sort(stacks, function(a, b) return a.id < b.id end)
   for i, stack in ipairs(stacks) do ids[i] = stack.id end
   local key = table.concat(ids, " ") .. (accepts and "!" or "")
   local state = self.states[key]
   if not state then
      state = {stacks = stacks, accepts = accepts, after = {}}
      self.states[key] = state
   end
   return state
end

-- Returns the state that follows `state` when a byte is read, or false if the grammar does not
-- allow the byte.
function Grammar:_step(state, byte)
   local found = state.after[byte]
   if found ~= nil then return found end
   local list = {}
   for _, stack in ipairs(state.stacks) do
      local node = stack.node
      if byte >= node.low and byte <= node.high then
         list[#list + 1] = {node = node.after, parent = stack.parent}
      end
   end
   found = #list > 0 and self:_state(list)
   state.after[byte] = found
   return found
end

--- Returns whether a whole text obeys the grammar.
---@param text string
---@return boolean
function Grammar:matches(text)
   if type(text) ~= "string" then args.refuse("llm.Grammar.matches", "text", "a string", text) end
   local state = self.first
   for i = 1, #text do
      state = self:_step(state, text:byte(i))
      if not state then return false end
   end
   return state.accepts
end

function Grammar:__tostring() return ("llm.Grammar(%d bytes)"):format(#self.text) end

-- Choosing tokens -------------------------------------------------------------------------------

local tries = setmetatable({}, {__mode = "k"})

-- The largest number of states whose masks are cached.
local kept <const> = 256

-- Returns a trie of the bytes of all tokens. Each node maps bytes to its children, and has a list
-- `tokens` of the tokens that end at the node.
local function trie_of(tokenizer)
   if tries[tokenizer] then return tries[tokenizer] end
   local root = {}
   for id = 1, #tokenizer.tokens do
      local piece = tokenizer.ends[id] and "" or tokenizer:piece(id)
      if piece ~= "" then
         local node = root
         for i = 1, #piece do
            local byte = piece:byte(i)
            node[byte] = node[byte] or {}
            node = node[byte]
         end
         node.tokens = node.tokens or {}
         table.insert(node.tokens, id)
      end
   end
   tries[tokenizer] = root
   return root
end

local Matcher = {}
Matcher.__index = Matcher

local function collect(grammar, state, node, list)
   for byte, child in pairs(node) do
      if byte ~= "tokens" then
         local after = grammar:_step(state, byte)
         if after then
            for _, id in ipairs(child.tokens or {}) do list[#list + 1] = id end
            collect(grammar, after, child, list)
         end
      end
   end
end

-- Returns a tensor (V) that has 0 for the tokens that are allowed in the current state and minus
-- infinity for all other tokens.
local function mask_of(self, size)
   local masks = self.masks
   local state = self.state
   if not masks[state] then
      local list = {}
      collect(self.grammar, state, trie_of(self.tokenizer), list)
      if state.accepts then
         for id in pairs(self.tokenizer.ends) do list[#list + 1] = id end
      end
      if #list == 0 then
         torch.raise "llm: grammar: no token of the vocabulary can continue the text"
      end
      local mask = torch.full({size}, -math.huge, {device = "cpu"})
      mask:index_fill_(1, torch.tensor(list, {dtype = "int64", device = "cpu"}), 0)
      if masks.count == kept then
         for key in pairs(masks) do masks[key] = nil end
      end
      masks.count = (masks.count or 0) + 1
      masks[state] = mask
   end
   return masks[state]
end

--- Returns a copy of the logits that has minus infinity for tokens that the grammar forbids.
---@param logits Tensor  (V)
---@return Tensor
function Matcher:allow(logits) return logits + mask_of(self, logits:numel()) end

--- Advances the state by a token.
---@param token integer
function Matcher:accept(token)
   local piece = self.tokenizer:piece(token)
   for i = 1, #piece do self.state = self.grammar:_step(self.state, piece:byte(i)) end
end

-- Returns the bytes that a token of a text.Tokenizer adds to a text, or "" if it adds none.
local function bytes_of(tokenizer, token)
   local bytes = require "tlua.text.tokenizer.bytes"
   local decode = tokenizer.decoder
   local function joined(...) return table.concat(decode {...}) end
   -- In a byte-level tokenizer, the character U+0120 stands for a space.
   if joined "\u{120}" == " " then return bytes.decode(token) or token end
   local byte = token:match "^<0x(%x%x)>$"
   if byte and joined "<0x41>" == "A" then return string.char(tonumber(byte, 16)) end
   local alone, text = joined "a", joined("a", token)
   return text:sub(1, #alone) == alone and text:sub(#alone + 1) or ""
end

-- Wraps a text.Tokenizer so that it has the methods which a matcher needs.
local Pieces = class.class("llm.GrammarPieces")

function Pieces:__init(tokenizer, ends)
   self.tokens, self.ends, self.bytes = tokenizer.tokens, ends, {}
   local special = {}
   for _, added in ipairs(tokenizer.added_tokens or {}) do
      if added.special then special[added.content] = true end
   end
   for id, token in ipairs(self.tokens) do
      self.bytes[id] = special[token] and "" or bytes_of(tokenizer, token)
   end
end

function Pieces:piece(id) return self.bytes[id] or "" end

--- Returns a function for the option logits_processor of torch.text's generate. The new text, which
--- begins after the prompt, then obeys the grammar, and it ends when it is complete.
---
---     local text = torch.text
---     local grammar = torch.llm.Grammar.from_string 'root ::= "low"'
---     local tokenizer = text.Tokenizer.from_str(text.Tokenizer.example)
---     local model = text.from_config {model_type = "gpt2", n_embd = 4,
---        n_head = 2, n_layer = 1, vocab_size = 13}
---     local ids = torch.tensor {{1, 2}}
---     local obey = grammar:logits_processor(tokenizer, ids:size(2), 13)
---     local options = {logits_processor = {obey}, eos_token_id = 13}
---     local made = model:generate(ids, options)[1]:tolist()
---     print(tokenizer:decode {table.unpack(made, 3, #made - 1)})
---     --> low
---@param tokenizer text.Tokenizer
---@param prompt_length integer  the number of tokens before the new text
---@param eos_token_id integer|integer[]  the tokens that end a text
---@return fun(ids: Tensor, scores: Tensor): Tensor
function Grammar:logits_processor(tokenizer, prompt_length, eos_token_id)
   local title <const> = "llm.Grammar:logits_processor"
   if not class.isinstance(tokenizer, require "tlua.text.Tokenizer") or not tokenizer.decoder then
      args.refuse(title, "tokenizer", "a text.Tokenizer with a decoder", tokenizer)
   end
   if math.type(prompt_length) ~= "integer" or prompt_length < 1 then
      args.refuse(title, "prompt_length", "a positive integer", prompt_length)
   end
   local ends, list = {}, type(eos_token_id) == "table" and eos_token_id or {eos_token_id}
   for _, id in ipairs(list) do ends[id] = math.type(id) == "integer" and id >= 1 or nil end
   if next(ends) == nil then
      args.refuse(title, "eos_token_id", "a token number from 1, or a list of them", eos_token_id)
   end
   local first = M._matcher(title, self, Pieces(tokenizer, ends))
   return function(ids, scores)
      local rows = {}
      for i, row in ipairs(ids:tolist()) do
         local matcher, is_ended = setmetatable({state = first.state}, {__index = first}), false
         for k = prompt_length + 1, #row do
            is_ended = is_ended or ends[row[k]] or false
            if not is_ended then Matcher.accept(matcher, row[k]) end
         end
         local mask = not is_ended and mask_of(matcher, scores:size(2)):to(scores.device)
         rows[i] = mask and scores[i] + mask or scores[i]
      end
      return torch.stack(rows, 1)
   end
end

-- Returns a new matcher, an object by which sampling.lua follows the grammar. `grammar` is an
-- llm.Grammar, or the text of a grammar.
function M._matcher(title, grammar, tokenizer)
   if type(grammar) == "string" then
      grammar = Grammar.from_string(grammar)
   elseif not class.isinstance(grammar, Grammar) then
      args.refuse(title, "grammar", "an llm.Grammar, or GBNF", grammar)
   end
   grammar.masks = grammar.masks or setmetatable({}, {__mode = "k"})
   grammar.masks[tokenizer] = grammar.masks[tokenizer] or {}
   return setmetatable({grammar = grammar, tokenizer = tokenizer, state = grammar.first,
      masks = grammar.masks[tokenizer]}, Matcher)
end

return M
