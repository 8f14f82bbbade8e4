-- parser.lua - parses a Jinja template into a tree. A node is {kind =, line =, ...}; evaluator.lua
-- has a function for each kind.

local analysis = require "tlua.text.template.analysis"
local lexer = require "tlua.text.template.lexer"

local M = {}

local most_nested <const> = 120
local most_operands <const> = 1000

local Parser = {}
Parser.__index = Parser

local function fail(line, why) error({template = why, line = line}, 0) end

-- Tokens ----------------------------------------------------------------------------------------

local function described(token)
   if token.type == "end" then return token.value end
   if token.type == "data" then return "text" end
   if token.type == "string" then return ("%q"):format(token.value) end
   return ("'%s'"):format(tostring(token.value))
end

function Parser:peek() return self.tokens[self.at] end
function Parser:ahead() return self.tokens[self.at + 1] or self.tokens[self.at] end

function Parser:next()
   local token = self.tokens[self.at]
   if token.type ~= "end" then self.at = self.at + 1 end
   return token
end

function Parser:is(kind, value)
   local token = self:peek()
   return token.type == kind and (value == nil or token.value == value)
end

function Parser:skip(kind, value)
   if self:is(kind, value) then return self:next() end
   return nil
end

function Parser:expect(kind, value)
   local token = self:skip(kind, value)
   if token then return token end
   local found = self:peek()
   return fail(found.line, ("expected %s, got %s"):format(value and "'" .. value .. "'" or "a "
      .. kind, described(found)))
end

function Parser:operator(...)
   local token = self:peek()
   if token.type ~= "operator" then return nil end
   for i = 1, select("#", ...) do
      if token.value == select(i, ...) then
         self:next()
         return token.value
      end
   end
   return nil
end

function Parser:node(kind, fields)
   fields.kind, fields.line = kind, fields.line or self:peek().line
   return fields
end

-- Returns count + 1, the number of operands so far in a chain such as a + b + c. Raises an error if
-- there are too many operands, because each operand nests the tree one level deeper.
function Parser:counted(count)
   if count > most_operands then
      fail(self:peek().line, ("an expression with more than %d parts"):format(most_operands))
   end
   return count + 1
end

function Parser:nested(parse, ...)
   self.depth = self.depth + 1
   if self.depth > most_nested then
      fail(self:peek().line, ("nested more than %d deep"):format(most_nested))
   end
   local node = parse(self, ...)
   self.depth = self.depth - 1
   return node
end

-- Expressions -----------------------------------------------------------------------------------

local constants <const> = {
   ["true"] = true, ["True"] = true, ["false"] = false, ["False"] = false,
}

function Parser:expression(without_condition)
   return self:nested(without_condition and self.either or self.condition)
end

-- Parses a conditional expression: a if b else c.
function Parser:condition()
   local line = self:peek().line
   local node = self:either()
   while self:skip("name", "if") do
      local test, other = self:either(), nil
      if self:skip("name", "else") then other = self:nested(self.condition) end
      node = self:node("condition", {line = line, test = test, yes = node, no = other})
   end
   return node
end

function Parser:either()
   local node, count = self:both(), 1
   while self:is("name", "or") do
      local line = self:next().line
      count = self:counted(count)
      node = self:node("or", {line = line, a = node, b = self:both()})
   end
   return node
end

function Parser:both()
   local node, count = self:negation(), 1
   while self:is("name", "and") do
      local line = self:next().line
      count = self:counted(count)
      node = self:node("and", {line = line, a = node, b = self:negation()})
   end
   return node
end

function Parser:negation()
   if self:is("name", "not") then
      local line = self:next().line
      return self:node("not", {line = line, a = self:nested(self.negation)})
   end
   return self:comparison()
end

function Parser:comparison()
   local line = self:peek().line
   local node, list = self:sum(), {}
   while true do
      local name = self:operator("==", "!=", "<", "<=", ">", ">=")
      if not name then
         if self:skip("name", "in") then
            name = "in"
         elseif self:is("name", "not") and self:ahead().value == "in" then
            self:next()
            self:next()
            name = "not in"
         else
            break
         end
      end
      list[#list + 1] = {name = name, value = self:sum()}
   end
   if #list == 0 then return node end
   return self:node("compare", {line = line, a = node, list = list})
end

function Parser:binary(operand, ...)
   local node, count = operand(self), 1
   while true do
      local line = self:peek().line
      local name = self:operator(...)
      if not name then return node end
      count = self:counted(count)
      node = self:node("binary", {line = line, name = name, a = node, b = operand(self)})
   end
end

function Parser:sum() return self:binary(self.concatenation, "+", "-") end

function Parser:concatenation()
   local line, list = self:peek().line, {self:product()}
   while self:operator "~" do list[#list + 1] = self:product() end
   if #list == 1 then return list[1] end
   return self:node("concat", {line = line, list = list})
end

function Parser:product() return self:binary(self.power, "*", "/", "//", "%") end
function Parser:power() return self:binary(self.unary, "**") end

function Parser:unary(plain)
   local line, node = self:peek().line
   local sign = self:operator("-", "+")
   if sign then
      node = self:node("unary", {line = line, name = sign, a = self:nested(self.unary, true)})
   else
      node = self:primary()
   end
   node = self:postfix(node)
   if plain ~= true then node = self:filters(node) end
   return node
end

function Parser:list_until(mark)
   local list = {}
   while not self:operator(mark) do
      if #list > 0 then
         self:expect("operator", ",")
         if self:operator(mark) then break end
      end
      list[#list + 1] = self:expression()
   end
   return list
end

function Parser:dict()
   local line, list = self:peek().line, {}
   while not self:operator "}" do
      if #list > 0 then
         self:expect("operator", ",")
         if self:operator "}" then break end
      end
      local key = self:expression()
      self:expect("operator", ":")
      list[#list + 1] = {key, self:expression()}
   end
   return self:node("dict", {line = line, list = list})
end

function Parser:primary()
   local token = self:next()
   local line = token.line
   if token.type == "name" then
      if constants[token.value] ~= nil then
         return self:node("constant", {line = line, value = constants[token.value]})
      elseif token.value == "none" or token.value == "None" then
         return self:node("none", {line = line})
      end
      return self:node("name", {line = line, name = token.value})
   elseif token.type == "string" then
      local parts = {token.value}
      while self:is "string" do parts[#parts + 1] = self:next().value end
      return self:node("constant", {line = line, value = table.concat(parts)})
   elseif token.type == "integer" or token.type == "float" then
      return self:node("constant", {line = line, value = token.value})
   elseif token.type == "operator" then
      if token.value == "(" then
         local node = self:tuple(true)
         self:expect("operator", ")")
         return node
      elseif token.value == "[" then
         return self:node("list", {line = line, list = self:list_until "]"})
      elseif token.value == "{" then
         return self:dict()
      end
   end
   return fail(line, ("unexpected %s"):format(described(token)))
end

function Parser:ends_tuple()
   local token = self:peek()
   return token.type == "variable_end" or token.type == "block_end" or token.type == "end"
      or token.type == "operator" and (token.value == ")" or token.value == "=")
      or token.type == "name" and token.value == "in"
end

-- Parses an expression, or several expressions separated by commas, which form a tuple.
function Parser:tuple(in_parentheses, without_condition)
   local line, list, is_tuple = self:peek().line, {}, false
   while true do
      if #list > 0 and not self:operator "," then break end
      if #list > 0 then is_tuple = true end
      if self:ends_tuple() then break end
      list[#list + 1] = self:expression(without_condition)
   end
   if not is_tuple and #list == 1 then return list[1] end
   if #list == 0 and not in_parentheses then
      fail(line, ("expected an expression, got %s"):format(described(self:peek())))
   end
   return self:node("tuple", {line = line, list = list})
end

-- Parses the names to which a statement assigns, such as "a" or "a, b".
function Parser:target(with_namespace)
   local function single()
      local token = self:peek()
      if self:operator "(" then
         local node = self:target(with_namespace)
         self:expect("operator", ")")
         return node
      end
      if token.type ~= "name" then
         fail(token.line, ("expected a name to assign to, got %s"):format(described(token)))
      end
      local name = self:next().value
      if constants[name] ~= nil or name == "none" or name == "None" then
         fail(token.line, ("cannot assign to '%s'"):format(name))
      end
      if with_namespace and self:operator "." then
         return {namespace = name, name = self:expect("name").value, line = token.line}
      end
      return {name = name, line = token.line}
   end
   local first = single()
   if not self:is("operator", ",") then return first end
   local list = {first, line = first.line}
   while self:operator "," do
      local token = self:peek()
      if token.type ~= "name" and token.value ~= "(" or token.value == "in" then break end
      list[#list + 1] = single()
   end
   return list
end

function Parser:arguments()
   local args = {}
   self:expect("operator", "(")
   while not self:operator ")" do
      if #args > 0 then
         self:expect("operator", ",")
         if self:operator ")" then break end
      end
      local line = self:peek().line
      if self:operator "**" then
         args[#args + 1] = {rest = "**", value = self:expression()}
      elseif self:operator "*" then
         args[#args + 1] = {rest = "*", value = self:expression()}
      elseif self:is "name" and self:ahead().type == "operator" and self:ahead().value == "=" then
         local name = self:next().value
         self:next()
         args[#args + 1] = {name = name, value = self:expression()}
         args.has_names = true
      else
         if args.has_names then fail(line, "an argument by position after one by name") end
         args[#args + 1] = {value = self:expression()}
      end
   end
   return args
end

function Parser:subscript(node)
   local line = self:peek().line
   local function bound()
      if self:is("operator", ":") or self:is("operator", "]") or self:is("operator", ",") then
         return nil
      end
      return self:expression()
   end
   local function one()
      local first = bound()
      if not self:operator ":" then
         if first then return first end
         fail(self:peek().line, ("unexpected %s in [ ]"):format(described(self:peek())))
      end
      local slice = {line = line, first = first, last = bound()}
      if self:operator ":" then slice.step = bound() end
      return self:node("slice", slice)
   end
   local key, list = one(), nil
   while self:operator "," do
      list = list or {key}
      if not self:is("operator", "]") then list[#list + 1] = one() end
   end
   self:expect("operator", "]")
   if list then key = self:node("tuple", {line = line, list = list}) end
   if key.kind == "slice" then
      key.a = node
      return key
   end
   return self:node("item", {line = line, a = node, key = key})
end

function Parser:postfix(node)
   local count = 1
   while true do
      local line = self:peek().line
      count = self:counted(count)
      if self:operator "." then
         local token = self:next()
         if token.type == "name" then
            node = self:node("attribute", {line = line, a = node, name = token.value})
         elseif token.type == "integer" then
            local key = self:node("constant", {line = line, value = token.value})
            node = self:node("item", {line = line, a = node, key = key})
         else
            fail(token.line, ("expected a name or a number after '.', got %s"):format(
               described(token)))
         end
      elseif self:operator "[" then
         node = self:subscript(node)
      elseif self:is("operator", "(") then
         node = self:node("call", {line = line, a = node, args = self:arguments()})
      else
         return node
      end
   end
end

local argument_starts <const> = {name = true, string = true, integer = true, float = true}

function Parser:test(node)
   local line = self:peek().line
   local negative = self:skip("name", "not")
   local name = self:expect("name").value
   while self:operator "." do name = name .. "." .. self:expect("name").value end
   local args, token = {}, self:peek()
   if self:is("operator", "(") then
      args = self:arguments()
   elseif argument_starts[token.type] and not (token.type == "name" and (token.value == "else"
      or token.value == "or" or token.value == "and"))
      or token.type == "operator" and (token.value == "[" or token.value == "{") then
      if token.value == "is" and token.type == "name" then
         fail(token.line, "tests cannot be chained with 'is'")
      end
      args = {{value = self:postfix(self:primary())}}
   end
   node = self:node("test", {line = line, a = node, name = name, args = args})
   if negative then node = self:node("not", {line = line, a = node}) end
   return node
end

function Parser:filter(node)
   local line = self:peek().line
   local name = self:expect("name").value
   while self:operator "." do name = name .. "." .. self:expect("name").value end
   local args = self:is("operator", "(") and self:arguments() or {}
   return self:node("filter", {line = line, a = node, name = name, args = args})
end

function Parser:filters(node)
   local count = 1
   while true do
      count = self:counted(count)
      if self:operator "|" then
         node = self:filter(node)
      elseif self:skip("name", "is") then
         node = self:test(node)
      elseif self:is("operator", "(") then
         node = self:node("call", {a = node, args = self:arguments()})
      else
         return node
      end
   end
end

-- Statements ------------------------------------------------------------------------------------

local statements = {}

-- Parses statements up to one of the given tags. After the call, the next token is the one after
-- the tag's name.
function Parser:body(opened, line, ...)
   local tags = {...}
   local list = self:nested(self.parts, tags)
   if self:is "end" then
      fail(line, ("%s is not closed, expected {%% %s %%}"):format(opened, tags[#tags]))
   end
   return list, self:next().value
end

function Parser:block_end() self:expect("block_end") end

statements["for"] = function(self, line)
   local target = self:target(false)
   self:expect("name", "in")
   local node = {line = line, target = target}
   -- An `if` after the iterable filters the loop, so it is not parsed as a conditional expression.
   local list, is_tuple = {}, false
   repeat
      list[#list + 1] = self:expression(true)
      local more = self:operator ","
      is_tuple = is_tuple or more ~= nil
   until not more or self:is "block_end" or self:is("name", "if") or self:is("name", "recursive")
   node.iterable = is_tuple and self:node("tuple", {line = line, list = list}) or list[1]
   if self:skip("name", "if") then node.filter = self:expression() end
   node.recursive = self:skip("name", "recursive") ~= nil
   self:block_end()
   self.loops = self.loops + 1
   local tag
   node.body, tag = self:body("for", line, "else", "endfor")
   if tag == "else" then
      self:block_end()
      node.otherwise = self:body("for", line, "endfor")
   end
   self.loops = self.loops - 1
   return self:node("for", node)
end

statements["if"] = function(self, line)
   local node, tag = {line = line, branches = {}}
   repeat
      local test = self:tuple(false, true)
      self:block_end()
      local body
      body, tag = self:body("if", line, "elif", "else", "endif")
      table.insert(node.branches, {test = test, body = body})
   until tag ~= "elif"
   if tag == "else" then
      self:block_end()
      node.otherwise = self:body("if", line, "endif")
   end
   return self:node("if", node)
end

statements["set"] = function(self, line)
   local target = self:target(true)
   if self:operator "=" then
      return self:node("set", {line = line, target = target, value = self:tuple()})
   end
   local filter = {line = line, kind = "captured"}
   local captured = filter
   while self:operator "|" do filter = self:filter(filter) end
   self:block_end()
   local body = self:body("set", line, "endset")
   return self:node("set_block", {line = line, target = target, filter = filter, body = body,
      captured = captured})
end

local function parameters(self)
   local list, has_default = {}, false
   self:expect("operator", "(")
   while not self:operator ")" do
      if #list > 0 then self:expect("operator", ",") end
      local token = self:expect "name"
      local parameter = {name = token.value}
      if self:operator "=" then
         parameter.default, has_default = self:expression(), true
      elseif has_default then
         fail(token.line, ("the parameter %s without default follows one with default"):format(
            token.value))
      end
      list[#list + 1] = parameter
   end
   return list
end

-- Returns whether a macro's body reads a name such as varargs, kwargs or caller.
local function uses(node, name, known)
   if type(node) ~= "table" or known[node] then return false end
   known[node] = true
   if node.kind == "name" and node.name == name then return true end
   for _, child in pairs(node) do
      if uses(child, name, known) then return true end
   end
   return false
end

local function macro(fields)
   fields.takes_kwargs = uses(fields.body, "kwargs", {})
   fields.takes_varargs = uses(fields.body, "varargs", {})
   fields.takes_caller = uses(fields.body, "caller", {})
   return fields
end

function statements.macro(self, line)
   local name = self:expect("name").value
   local list = parameters(self)
   self:block_end()
   local loops = self.loops
   self.loops = 0
   local body = self:body("macro", line, "endmacro")
   self.loops = loops
   return self:node("macro", macro({line = line, name = name, parameters = list,
      body = body}))
end

function statements.call(self, line)
   local list = self:is("operator", "(") and parameters(self) or {}
   local call = self:expression()
   if call.kind ~= "call" then fail(line, "expected a call after 'call'") end
   self:block_end()
   local body = self:body("call", line, "endcall")
   return self:node("call_block", {line = line, call = call,
      macro = macro({line = line, name = "caller", parameters = list, body = body})})
end

function statements.filter(self, line)
   local filter = {line = line, kind = "captured"}
   filter = self:filter(filter)
   while self:operator "|" do filter = self:filter(filter) end
   self:block_end()
   return self:node("filter_block", {line = line, filter = filter,
      body = self:body("filter", line, "endfilter")})
end

statements["with"] = function(self, line)
   local targets, values = {}, {}
   while not self:is "block_end" do
      if #targets > 0 then self:expect("operator", ",") end
      targets[#targets + 1] = self:target(false)
      self:expect("operator", "=")
      values[#values + 1] = self:expression()
   end
   self:block_end()
   return self:node("with", {line = line, targets = targets, values = values,
      body = self:body("with", line, "endwith")})
end

function statements.block(self, line)
   local name = self:expect("name").value
   for _, word in ipairs {"scoped", "required"} do self:skip("name", word) end
   self:block_end()
   local body = self:body("block", line, "endblock")
   self:skip("name", name)
   return self:node("block", {line = line, body = body})
end

function statements.generation(self, line)
   self:block_end()
   return self:node("generation", {line = line,
      body = self:body("generation", line, "endgeneration")})
end

function statements.autoescape(self, line)
   local value = self:expression()
   if value.kind ~= "constant" or value.value ~= false then
      fail(line, "autoescape is not supported")
   end
   self:block_end()
   return self:node("block", {line = line, body = self:body("autoescape", line, "endautoescape")})
end

function statements.print(self, line)
   return self:node("output", {line = line, value = self:tuple()})
end

for _, name in ipairs {"break", "continue"} do
   statements[name] = function(self, line)
      if self.loops == 0 then fail(line, ("'%s' outside of a loop"):format(name)) end
      return self:node(name, {line = line})
   end
end

for _, name in ipairs {"include", "import", "from", "extends", "do", "trans"} do
   statements[name] = function(_, line)
      fail(line, ("'%s' is not available in chat templates"):format(name))
   end
end

-- Parses a part of a template up to one of the given tags, or up to the end if no tags are given.
function Parser:parts(tags)
   local list = {}
   while true do
      local token = self:next()
      if token.type == "data" then
         list[#list + 1] = self:node("data", {line = token.line, text = token.value})
      elseif token.type == "variable_begin" then
         list[#list + 1] = self:node("output", {line = token.line, value = self:tuple()})
         self:expect "variable_end"
      elseif token.type == "block_begin" then
         local name = self:peek()
         if name.type ~= "name" then
            fail(name.line, ("expected a tag's name, got %s"):format(described(name)))
         end
         for _, tag in ipairs(tags) do
            if tag == name.value then return list end
         end
         local parse = statements[name.value]
         if not parse then
            fail(name.line, ("unknown tag '%s'%s"):format(name.value, #tags > 0
               and (", expected %s"):format(table.concat(tags, " or ")) or ""))
         end
         self:next()
         list[#list + 1] = parse(self, name.line)
         self:block_end()
      else
         return list
      end
   end
end

--- Parses a template.
---@param text string
---@return table[] nodes
function M.parse(text)
   local self = setmetatable({tokens = lexer.tokens(text), at = 1, depth = 0, loops = 0}, Parser)
   local nodes = self:parts({})
   analysis.analyse(nodes)
   return nodes
end

return M
