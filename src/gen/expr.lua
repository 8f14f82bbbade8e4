-- expr.lua - the small language of derivatives and compositions: names, numbers, calls of operators
-- (`sum(grad, dim, true)` or `grad:sum(dim, true)`), + - * / ^ and lists `{a, b}`. With a tensor as
-- operand, a sign such as + calls an operator; between numbers it is C arithmetic. Expressions are
-- translated to C code that keeps every intermediate tensor in a slot `t[i]`; the surrounding
-- function releases all slots at its end. Dimensions count from 0, as in C, and negative ones from
-- the end.

local M = {}

-- Reading -----------------------------------------------------------------------------------------

local function tokenize(text)
   local tokens, at = {}, 1
   while true do
      at = text:find("%S", at)
      if not at then
         break
      end
      local kind, token = "number", text:match("^%d+%.?%d*[eE]?[+-]?%d*", at)
      if token then
         token = token:match("^%d+%.?%d*[eE][+-]?%d+") or token:match("^%d+%.?%d*")
      elseif text:match("^[%a_]", at) then
         kind, token = "name", text:match("^[%a_][%w_]*", at)
      elseif text:match("^'", at) then
         kind, token = "string", text:match("^'[^']*'", at)
      else
         kind, token = "sign", text:sub(at, at)
      end
      tokens[#tokens + 1] = {kind = kind, text = token}
      at = at + #token
   end
   tokens[#tokens + 1] = {kind = "end", text = "<end>"}
   return tokens
end

local Parser = {}
Parser.__index = Parser

function Parser:peek() return self.tokens[self.at] end

function Parser:next()
   self.at = self.at + 1
   return self.tokens[self.at - 1]
end

function Parser:accept(text)
   if self:peek().kind == "sign" and self:peek().text == text then
      return self:next()
   end
end

function Parser:expect(text)
   if not self:accept(text) then
      error(("expression %q: expected %s near %s"):format(self.text, text, self:peek().text), 0)
   end
end

function Parser:list(close)
   local items = {}
   if self:accept(close) then
      return items
   end
   repeat
      items[#items + 1] = self:expression(0)
   until not self:accept(",")
   self:expect(close)
   return items
end

local constants = {["true"] = true, ["false"] = true, ["nil"] = true, inf = true, pi = true}

function Parser:primary()
   local token = self:next()
   if token.kind == "number" then
      return {kind = "number", text = token.text}
   elseif token.kind == "string" then
      return {kind = "string", text = token.text:sub(2, -2)}
   elseif token.kind == "name" then
      if constants[token.text] then
         return {kind = "constant", text = token.text}
      elseif self:accept("(") then
         return {kind = "call", name = token.text, args = self:list(")")}
      end
      return {kind = "name", name = token.text}
   elseif token.text == "(" then
      local inner = self:expression(0)
      self:expect(")")
      return inner
   elseif token.text == "{" then
      return {kind = "list", args = self:list("}")}
   elseif token.text == "-" then
      return {kind = "neg", args = {self:expression(6)}}
   end
   error(("expression %q: unexpected %s"):format(self.text, token.text), 0)
end

function Parser:suffixed()
   local left = self:primary()
   while self:accept(":") do
      local name = self:next().text
      self:expect("(")
      local args = self:list(")")
      table.insert(args, 1, left)
      left = {kind = "call", name = name, args = args}
   end
   return left
end

-- The left and right binding power of each sign, for the parser. Signs have the same precedence as
-- in Lua.
local powers = {["+"] = {3, 4}, ["-"] = {3, 4}, ["*"] = {5, 6}, ["/"] = {5, 6}, ["^"] = {9, 8}}

function Parser:expression(limit)
   local left = self:suffixed()
   while true do
      local token = self:peek()
      local power = token.kind == "sign" and powers[token.text]
      if not power or power[1] <= limit then
         return left
      end
      self:next()
      left = {kind = "binary", sign = token.text, args = {left, self:expression(power[2])}}
   end
end

--- Parses an expression into a tree of {kind=, args=, ...}.
function M.parse(text)
   local parser = setmetatable({text = text, tokens = tokenize(text), at = 1}, Parser)
   local tree = parser:expression(0)
   if parser:peek().kind ~= "end" then
      error(("expression %q: unexpected %s"):format(text, parser:peek().text), 0)
   end
   return tree
end

--- Calls fn(node) for every node of a tree.
function M.walk(tree, fn)
   fn(tree)
   for _, child in ipairs(tree.args or {}) do
      M.walk(child, fn)
   end
end

-- Translating -------------------------------------------------------------------------------------

local Compiler = {}
Compiler.__index = Compiler

--- Returns a compiler for the C function that is being written.
---@param env table  {table = all operators, lookup = fn(name) -> {type=, c=} or nil,
---                   builtin = fn(compiler, call) -> value or nil, what = for messages}
function M.compiler(env)
   return setmetatable({env = env, lines = {}, slots = 0}, Compiler)
end

function Compiler:fail(format, ...)
   error(("%s: %s"):format(self.env.what, format:format(...)), 0)
end

function Compiler:emit(format, ...)
   self.lines[#self.lines + 1] = format:format(...)
end

function Compiler:slot()
   self.slots = self.slots + 1
   return ("t[%d]"):format(self.slots - 1)
end

-- Assigns the C expression of a new tensor to a slot. The generated code jumps to `done` if the
-- expression is NULL.
function Compiler:tensor(c)
   local slot = self:slot()
   self:emit("if ((%s = %s) == NULL) goto done;", slot, c)
   return {type = "Tensor", c = slot}
end

local arithmetic = {["+"] = "add", ["-"] = "sub", ["*"] = "mul", ["/"] = "div", ["^"] = "pow"}

local whole = {int = true, dim = true, index = true}

local function to_scalar(value)
   if value.type == "Number" then return value.c end
   if whole[value.type] then return ("tli_int(%s)"):format(value.c) end
   if value.type == "float" then return ("tli_float(%s)"):format(value.c) end
   if value.type == "bool" then return ("tli_bool(%s)"):format(value.c) end
end

local convert = {}

function convert.Tensor(compiler, value)
   if value.type == "Tensor" then return value.c end
   local scalar = to_scalar(value)
   return scalar and compiler:tensor(("tli_number(%s)"):format(scalar)).c
end

convert.Operand = convert.Tensor

function convert.Number(_, value) return to_scalar(value) end

function convert.int(_, value)
   if whole[value.type] then return value.c end
   if value.type == "Number" then return ("tli_to_int(%s)"):format(value.c) end
end

convert.dim, convert.index = convert.int, convert.int

function convert.float(_, value)
   if value.type == "float" or whole[value.type] then return ("(double)%s"):format(value.c) end
   if value.type == "Number" then return ("tli_to_double(%s)"):format(value.c) end
end

convert["int[]"] = function(_, value)
   if value.type:find("[]", 1, true) and value.type ~= "Tensor[]" then return value.c end
   if whole[value.type] then return ("(tl_Ints){1, (int64_t[]){%s}}"):format(value.c) end
end
convert["dim[]"], convert["index[]"] = convert["int[]"], convert["int[]"]

-- Returns a table that maps the dtypes' Lua names to their C names, read from TL_DTYPES in tlua.h.
local function read_dtypes()
   local here, names = debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$"), {}
   for line in io.lines(here .. "/../tlua.h") do
      local name, text = line:match('^ *X%((%w+), "(%w+)", %d')
      if name then names[text] = "TL_" .. name end
   end
   return names
end

M.dtypes = read_dtypes()

function convert.dtype(_, value)
   if value.type == "dtype" then return value.c end
   return value.type == "string" and M.dtypes[value.c:sub(2, -2)]
end

local function same(_, value, want)
   return value.type == want and value.c
end

function Compiler:convert(value, param)
   if value.type == "nil" then
      return param.info.none
   end
   local c = (convert[param.type] or same)(self, value, param.type)
   return c or self:fail("%s expects %s, got %s", param.name, param.type, value.type)
end

local function default_c(param)
   local text = param.default
   if text == nil or text == "nil" then return param.info.none end
   if param.type == "Number" then
      if text == "inf" then return "tli_float(INFINITY)" end
      if text == "-inf" then return "tli_float(-INFINITY)" end
      return (text:find("[.e]") and "tli_float(%s)" or "tli_int(%s)"):format(text)
   elseif param.type == "string" then
      return '"' .. text:sub(2, -2) .. '"'
   elseif text:match("^{") then
      local count = select(2, text:gsub("%d+", ""))
      return ("(tl_Ints){%d, (int64_t[])%s}"):format(count, text)
   elseif param.type == "float" then
      return text == "inf" and "INFINITY" or text == "-inf" and "-INFINITY" or text
   elseif param.type:find("%[%]") then
      return ("(tl_Ints){1, (int64_t[]){%s}}"):format(text)
   elseif param.type == "dtype" then
      return M.dtypes[text:sub(2, -2)]
   elseif param.type == "dim" or param.type == "index" then
      -- default dimensions in signatures need no conversion: they count from 0, as in C, or from
      -- the end
      return text
   end
   return text
end

M.default_c = default_c

--- Returns the C argument list for a call of `op`.
function Compiler:arguments(op, args)
   if #args > #op.params then
      self:fail("%s takes %d arguments, got %d", op.cname, #op.params, #args)
   end
   local out = {}
   for i, param in ipairs(op.params) do
      if args[i] then
         out[i] = self:convert(self:compile(args[i]), param)
      elseif param.optional then
         out[i] = default_c(param)
      else
         self:fail("%s needs argument %s", op.cname, param.name)
      end
   end
   return table.concat(out, ", ")
end

function Compiler:call(name, args)
   local op = self.env.table.byname[name]
   if not op then
      self:fail("unknown operator %s", name)
   elseif op.results.kind ~= "tensor" then
      self:fail("operator %s does not give one tensor", name)
   end
   return self:tensor(("tlo_%s(%s)"):format(op.cname, self:arguments(op, args)))
end

--- Calls an operator with several results. The results are in consecutive slots. Returns these
--- slots.
function Compiler:call_several(tree, count)
   local op = tree.kind == "call" and self.env.table.byname[tree.name]
   if not op or op.results.count ~= count then
      self:fail("expected an operator with %d results", count)
   end
   local args = self:arguments(op, tree.args)
   local first = self.slots
   self.slots = self.slots + count
   self:emit("if (!tlo_%s(%s, t + %d)) goto done;", op.cname, args, first)
   local slots = {}
   for i = 1, count do
      slots[i] = ("t[%d]"):format(first + i - 1)
   end
   return slots
end

local compile = {}

function compile.number(_, node)
   local float = node.text:find("[.eE]")
   return {type = float and "float" or "int", c = node.text}
end

function compile.string(_, node) return {type = "string", c = '"' .. node.text .. '"'} end

function compile.constant(_, node)
   if node.text == "nil" then return {type = "nil"} end
   if node.text == "inf" then return {type = "float", c = "INFINITY"} end
   if node.text == "pi" then return {type = "float", c = "TLI_PI"} end
   return {type = "bool", c = node.text}
end

function compile.name(self, node)
   return self.env.lookup(node.name) or self:fail("unknown name %s", node.name)
end

function compile.list(self, node)
   local items = {}
   for i, child in ipairs(node.args) do
      items[i] = convert.int(self, self:compile(child)) or self:fail("a list holds only integers")
   end
   local list = ("(tl_Ints){%d, (int64_t[]){%s}}"):format(#items, table.concat(items, ", "))
   return {type = "int[]", c = list}
end

function compile.neg(self, node)
   local value = self:compile(node.args[1])
   if value.type == "Tensor" then
      return self:tensor(("tlo_neg(%s)"):format(value.c))
   elseif value.type == "Number" then
      return {type = "Number", c = ("tli_scalar_neg(%s)"):format(value.c)}
   end
   return {type = value.type, c = ("-%s"):format(value.c)}
end

local function in_brackets(c)
   return c:match("^[%w_.]+$") and c or "(" .. c .. ")"
end

function compile.binary(self, node)
   local left, right = self:compile(node.args[1]), self:compile(node.args[2])
   local name = arithmetic[node.sign]
   if left.type == "Tensor" or right.type == "Tensor" then
      local op = self.env.table.byname[name] or self:fail("no operator %s", name)
      local args = {convert.Tensor(self, left), convert.Tensor(self, right)}
      for i = 3, #op.params do
         args[i] = default_c(op.params[i])
      end
      return self:tensor(("tlo_%s(%s)"):format(op.cname, table.concat(args, ", ")))
   elseif left.type == "Number" or right.type == "Number" or node.sign == "^" then
      local call = ("tli_scalar_%s(%s, %s)"):format(name, to_scalar(left), to_scalar(right))
      return {type = "Number", c = call}
   end
   local float = left.type == "float" or right.type == "float" or node.sign == "/"
   local cast = node.sign == "/" and "(double)" or ""
   return {type = float and "float" or "int",
           c = ("%s%s %s %s"):format(cast, in_brackets(left.c), node.sign, in_brackets(right.c))}
end

-- the generated C code conjugates a scalar, because no operator conjugates a number
local function conjugate(self, node)
   if node.name ~= "conj" or node.args[1].kind ~= "name" then return nil end
   local value = self:compile(node.args[1])
   if value.type ~= "Number" then return nil end
   return {type = "Number", c = ("tli_scalar_conj(%s)"):format(value.c)}
end

function compile.call(self, node)
   local number = conjugate(self, node)
   if number then return number end
   local value = self.env.builtin and self.env.builtin(self, node)
   return value or self:call(node.name, node.args)
end

--- Translates an expression tree. Returns {type=, c=}.
function Compiler:compile(node)
   return compile[node.kind](self, node)
end

return M
