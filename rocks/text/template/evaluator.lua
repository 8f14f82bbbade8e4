-- evaluator.lua - evaluates the syntax tree of a template. A template can reach only its variables,
-- filters, tests and methods. The evaluator limits the number of its steps, the depth of its calls
-- and the length of its text.

local filters = require "tlua.text.template.filters"
local globals = require "tlua.text.template.globals"
local methods = require "tlua.text.template.methods"
local operators = require "tlua.text.template.operators"
local strings = require "tlua.text.template.strings"
local tests = require "tlua.text.template.tests"
local values = require "tlua.text.template.values"

local fail = values.fail

local most_steps <const> = 10000000
local most_bytes <const> = 1 << 26
local most_depth <const> = 150

local Evaluator = {}
Evaluator.__index = Evaluator

local M = {}

-- Bounds ----------------------------------------------------------------------------------------

--- Adds to the number of evaluated steps, and raises an error if it exceeds the limit.
---@param count integer
function Evaluator:charge(count)
   self.steps = self.steps + count
   if self.steps > most_steps then
      fail("the template takes more than %d steps", most_steps)
   end
end

--- Raises an error if a text that a template makes is too long.
---@param size integer  in bytes
function Evaluator:check_size(size)
   if size > most_bytes then fail("a text of more than %d bytes", most_bytes) end
   self:charge(size // 256)
end

-- Names -----------------------------------------------------------------------------------------

-- Creates the scope of a block. The names in node.hidden are undefined until the block sets them
-- (see analysis.lua).
local function scope_in(parent, node)
   local scope = setmetatable({}, {__index = parent})
   for _, name in ipairs(node and node.hidden or {}) do
      scope[name] = values.undefined(("'%s' is undefined"):format(name))
   end
   return scope
end

function Evaluator:name(scope, name)
   local value = scope[name]
   if value == nil then value = globals.functions[name] end
   if value == nil then return values.undefined(("'%s' is undefined"):format(name)) end
   return value
end

local function bind(self, scope, target, value)
   if target.namespace then
      local space = self:name(scope, target.namespace)
      if values.kind(space) ~= "namespace" then
         fail "cannot assign attribute on non-namespace object"
      end
      globals.check_field(target.name)
      space.fields[target.name] = value
   elseif target.name then
      scope[target.name] = value
   else
      local list = values.elements(value)
      if #list ~= #target then
         fail("expected %d values to unpack, got %d", #target, #list)
      end
      for i, inner in ipairs(target) do bind(self, scope, inner, list[i]) end
   end
end

-- Access ----------------------------------------------------------------------------------------

local function lacks(value, name)
   local title = getmetatable(value) and type(value) == "table" and getmetatable(value).title
      or values.type_name(value) .. " object"
   if type(name) ~= "string" then
      return values.undefined(("%s has no element %s"):format(title, values.repr(name)))
   end
   return values.undefined(("'%s' has no attribute '%s'"):format(title, name))
end

local loop_fields = {
   index = function(loop) return loop.at end,
   index0 = function(loop) return loop.at - 1 end,
   revindex = function(loop) return loop:count() - loop.at + 1 end,
   revindex0 = function(loop) return loop:count() - loop.at end,
   first = function(loop) return loop.at == 1 end,
   last = function(loop) return loop:peek() == nil end,
   length = function(loop) return loop:count() end,
   depth = function(loop) return loop.depth end,
   depth0 = function(loop) return loop.depth - 1 end,
   previtem = function(loop)
      if loop.before == nil then return values.undefined "there is no previous item" end
      return loop.before
   end,
   nextitem = function(loop)
      local item = loop:peek()
      if item == nil then return values.undefined "there is no next item" end
      return item
   end,
   cycle = function(loop)
      return values.new_function("cycle", function(_, args)
         if #args == 0 then fail "no items for cycling given" end
         return args[(loop.at - 1) % #args + 1]
      end)
   end,
   changed = function(loop)
      return values.new_function("changed", function(_, args)
         local now = values.tuple(args)
         if loop.seen and values.equal(loop.seen, now) then return false end
         loop.seen = now
         return true
      end)
   end,
}

--- Returns the value of the template's expression value.name.
---@param value any
---@param name string
---@return any
function Evaluator:attribute(value, name)
   local kind = values.kind(value)
   if kind == "undefined" then fail(value.message) end
   if kind == "dict" then
      local method = methods.find(value, name)
      if method then return method end
      local found = value.values[name]
      if found ~= nil then return found end
   elseif kind == "namespace" then
      if value.fields[name] ~= nil then return value.fields[name] end
   elseif kind == "loop" then
      if loop_fields[name] then return loop_fields[name](value) end
   elseif kind == "function" then
      if value.fields and value.fields[name] ~= nil then return value.fields[name] end
      if name == "name" then return value.name end
   else
      local method = methods.find(value, name)
      if method then return method end
   end
   if name:sub(1, 2) == "__" then
      fail("access to attribute '%s' of '%s' object is unsafe", name, values.type_name(value))
   end
   return lacks(value, name)
end

--- Returns the value of the template's expression value[key].
---@param value any
---@param key any
---@return any
function Evaluator:item(value, key)
   local kind, index = values.kind(value), values.number(key)
   if kind == "undefined" then fail(value.message) end
   if kind == "dict" then
      local ok, found = pcall(values.get, value, key)
      if ok and found ~= nil then return found end
      if type(key) ~= "string" then return lacks(value, key) end
      return methods.find(value, key) or lacks(value, key)
   elseif (kind == "list" or kind == "tuple" or kind == "range" or kind == "string")
      and math.type(index) == "integer" then
      local length = values.length(value)
      if index < 0 then index = index + length end
      if index < 0 or index >= length then return lacks(value, key) end
      if kind == "string" then return strings.sub(value, index + 1, index + 1) end
      return value[index + 1]
   end
   if type(key) == "string" then return self:attribute(value, key) end
   return lacks(value, key)
end

function Evaluator:call(callee, args, named)
   if values.kind(callee) == "undefined" then fail(callee.message) end
   if not callee.call or type(callee.call) ~= "function" then
      fail("'%s' object is not callable", values.type_name(callee))
   end
   self:charge(1)
   self.depth = self.depth + 1
   if self.depth > most_depth then fail("calls are nested more than %d deep", most_depth) end
   local result = callee.call(self, args, named)
   self.depth = self.depth - 1
   return result
end

--- Applies a filter to a value, and returns the result.
---@param name string
---@param value any
---@param args any[]
---@param named table<string, any>
---@return any
function Evaluator:filter(name, value, args, named)
   local filter = filters[name]
   if not filter then fail("there is no filter '%s'", name) end
   return filter(self, value, args, named)
end

--- Returns whether a value passes a test.
---@param name string
---@param value any
---@param args any[]
---@param named table<string, any>
---@return boolean
function Evaluator:test(name, value, args, named)
   local test = tests[name]
   if not test then fail("there is no test '%s'", name) end
   return test(self, value, args, named)
end

-- Expressions -----------------------------------------------------------------------------------

local eval = {}

local function evaluate(self, node, scope)
   self.steps = self.steps + 1
   if self.steps > most_steps then self:charge(0) end
   return eval[node.kind](self, node, scope)
end

function eval.constant(_, node) return node.value end
function eval.none() return values.none end
function eval.captured(self) return self.captured end
function eval.name(self, node, scope)
   self.line = node.line
   return self:name(scope, node.name)
end

function eval.condition(self, node, scope)
   if values.truth(evaluate(self, node.test, scope)) then
      return evaluate(self, node.yes, scope)
   end
   if node.no then return evaluate(self, node.no, scope) end
   return values.undefined(("the inline if-expression on line %d evaluated to false and no else "
      .. "section was defined."):format(node.line))
end

eval["or"] = function(self, node, scope)
   local a = evaluate(self, node.a, scope)
   if values.truth(a) then return a end
   return evaluate(self, node.b, scope)
end

eval["and"] = function(self, node, scope)
   local a = evaluate(self, node.a, scope)
   if not values.truth(a) then return a end
   return evaluate(self, node.b, scope)
end

eval["not"] = function(self, node, scope)
   return not values.truth(evaluate(self, node.a, scope))
end

function eval.compare(self, node, scope)
   local left = evaluate(self, node.a, scope)
   for _, step in ipairs(node.list) do
      local right = evaluate(self, step.value, scope)
      self.line = node.line
      if not operators.compare(self, step.name, left, right) then return false end
      left = right
   end
   return true
end

function eval.binary(self, node, scope)
   local a = evaluate(self, node.a, scope)
   local b = evaluate(self, node.b, scope)
   self.line = node.line
   return operators.binary(self, node.name, a, b)
end

function eval.unary(self, node, scope)
   local a = evaluate(self, node.a, scope)
   self.line = node.line
   return operators.unary(node.name, a)
end

function eval.concat(self, node, scope)
   local parts, size = {}, 0
   for i, child in ipairs(node.list) do
      parts[i] = values.text(evaluate(self, child, scope))
      size = size + #parts[i]
   end
   self:check_size(size)
   return table.concat(parts)
end

local function evaluate_all(self, list, scope)
   local result = {}
   for i, child in ipairs(list) do result[i] = evaluate(self, child, scope) end
   return result
end

function eval.list(self, node, scope) return values.list(evaluate_all(self, node.list, scope)) end
function eval.tuple(self, node, scope) return values.tuple(evaluate_all(self, node.list, scope)) end

function eval.dict(self, node, scope)
   local dict = values.dict()
   for _, pair in ipairs(node.list) do
      local key = evaluate(self, pair[1], scope)
      values.put(dict, key, evaluate(self, pair[2], scope))
   end
   return dict
end

function eval.attribute(self, node, scope)
   local value = evaluate(self, node.a, scope)
   self.line = node.line
   return self:attribute(value, node.name)
end

function eval.item(self, node, scope)
   local value = evaluate(self, node.a, scope)
   local key = evaluate(self, node.key, scope)
   self.line = node.line
   return self:item(value, key)
end

function eval.slice(self, node, scope)
   local value = evaluate(self, node.a, scope)
   local function bound(child) return child and evaluate(self, child, scope) or nil end
   local first, last, step = bound(node.first), bound(node.last), bound(node.step)
   self.line = node.line
   return operators.slice(self, value, first, last, step)
end

-- Returns the arguments of a call, by position and by name.
local function arguments_of(self, list, scope)
   local args, named = {}, {}
   for _, arg in ipairs(list) do
      local value = evaluate(self, arg.value, scope)
      if arg.rest == "*" then
         for item in values.iterate(value) do args[#args + 1] = item end
         self:charge(#args)
      elseif arg.rest == "**" then
         if values.kind(value) ~= "dict" then
            fail("argument after ** must be a mapping, not %s", values.type_name(value))
         end
         for _, key in ipairs(value.keys) do named[key] = values.get(value, key) end
      elseif arg.name then
         if named[arg.name] ~= nil then fail("keyword argument repeated: %s", arg.name) end
         named[arg.name] = value
         named[#named + 1] = arg.name -- the order of the names matters for dict(b = 1, a = 2)
      else
         args[#args + 1] = value
      end
   end
   local order = {}
   for i = #named, 1, -1 do order[i], named[i] = named[i], nil end
   self.order = order
   return args, named
end

function eval.call(self, node, scope)
   local callee = evaluate(self, node.a, scope)
   local args, named = arguments_of(self, node.args, scope)
   self.line = node.line
   return self:call(callee, args, named)
end

function eval.filter(self, node, scope)
   local value = evaluate(self, node.a, scope)
   local args, named = arguments_of(self, node.args, scope)
   self.line = node.line
   return self:filter(node.name, value, args, named)
end

function eval.test(self, node, scope)
   local value = evaluate(self, node.a, scope)
   local args, named = arguments_of(self, node.args, scope)
   self.line = node.line
   return self:test(node.name, value, args, named)
end

-- Statements ------------------------------------------------------------------------------------

local run = {}

-- Runs statements. Returns "break" or "continue" if one of the statements ends the current pass of
-- the loop.
local function execute(self, nodes, scope)
   for i = 1, #nodes do
      local node = nodes[i]
      self.steps = self.steps + 1
      if self.steps > most_steps then self:charge(0) end
      local signal = run[node.kind](self, node, scope)
      if signal then return signal end
   end
end

function Evaluator:write(text)
   if text == "" then return end
   local out = self.out
   out.n, out.size = out.n + 1, out.size + #text
   out[out.n] = text
   if out.size > most_bytes then self:check_size(out.size) end
end

-- Runs statements, and returns the text that they output.
local function capture(self, nodes, scope)
   local outer = self.out
   self.out = {n = 0, size = 0}
   execute(self, nodes, scope)
   local text = table.concat(self.out)
   self.out = outer
   self:check_size(#text)
   return text
end

function run.data(self, node) self:write(node.text) end

function run.output(self, node, scope)
   local value = evaluate(self, node.value, scope)
   self:write(values.text(value))
end

run["if"] = function(self, node, scope)
   for _, branch in ipairs(node.branches) do
      if values.truth(evaluate(self, branch.test, scope)) then
         return execute(self, branch.body, scope)
      end
   end
   if node.otherwise then return execute(self, node.otherwise, scope) end
end

function run.set(self, node, scope)
   local value = evaluate(self, node.value, scope)
   self.line = node.line
   bind(self, scope, node.target, value)
end

function run.set_block(self, node, scope)
   local text = capture(self, node.body, scope_in(scope, node))
   if node.filter ~= node.captured then
      self.captured = text
      text = evaluate(self, node.filter, scope)
   end
   bind(self, scope, node.target, text)
end

function run.filter_block(self, node, scope)
   self.captured = capture(self, node.body, scope_in(scope, node))
   self:write(values.text(evaluate(self, node.filter, scope)))
end

function run.with(self, node, scope)
   local inner = scope_in(scope, node)
   local list = evaluate_all(self, node.values, scope)
   for i, target in ipairs(node.targets) do bind(self, inner, target, list[i]) end
   return execute(self, node.body, inner)
end

function run.block(self, node, scope) return execute(self, node.body, scope_in(scope, node)) end

function run.generation(self, node, scope)
   local from = self.main.size
   local text = capture(self, node.body, scope_in(scope, node))
   table.insert(self.generated, {from + 1, from + #text})
   self:write(text)
end

run["break"] = function() return "break" end
run["continue"] = function() return "continue" end

-- Loops -----------------------------------------------------------------------------------------

local Loop = values.Loop
Loop.__index = Loop

-- Returns the next item of the loop, or nil at the end.
function Loop:advance()
   local item = self.after
   self.after = nil
   if item == nil then item = self.next() end
   if item == nil then return nil end
   self.before, self.item, self.at = self.item, item, self.at + 1
   return item
end

function Loop:peek()
   if self.after == nil then self.after = self.next() end
   return self.after
end

-- Returns the number of items of the loop. To count them, it reads all remaining items.
function Loop:count()
   if not self.length then
      local list, i = {}, 0
      for item in self.next do list[#list + 1] = item end
      self.length = #list + self.at + (self.after ~= nil and 1 or 0)
      self.next = function()
         i = i + 1
         return list[i]
      end
   end
   return self.length
end

-- Runs the body of a loop for each item of a value.
local function loop_over(self, node, scope, value, depth)
   local next_item = values.iterate(value)
   local loop = setmetatable({at = 0, depth = depth}, Loop)
   if values.kind(value) ~= "generator" then loop.length = values.length(value) end
   if node.filter then
      loop.length = nil
      loop.next = function()
         while true do
            local item = next_item()
            if item == nil then return nil end
            local inner = scope_in(scope)
            bind(self, inner, node.target, item)
            if values.truth(evaluate(self, node.filter, inner)) then
               return node.target.name and item or values.tuple(values.elements(item))
            end
         end
      end
   else
      loop.next = next_item
   end
   if node.recursive then
      loop.call = function(evaluator, args)
         local outer = evaluator.out
         evaluator.out = {n = 0, size = 0}
         if #args ~= 1 then fail "loop: expected one argument" end
         loop_over(evaluator, node, scope, args[1], depth + 1)
         local text = table.concat(evaluator.out)
         evaluator.out = outer
         return text
      end
   end
   local item, is_complete = loop:advance(), false
   while item ~= nil do
      self:charge(1)
      local inner = scope_in(scope, node)
      inner.loop = loop
      bind(self, inner, node.target, item)
      local signal = execute(self, node.body, inner)
      if signal == "break" then break end
      is_complete = is_complete or not signal
      item = loop:advance()
   end
   -- As in Jinja, the `else` block runs if no iteration has reached the end of the loop's body.
   if node.otherwise and not is_complete then
      return execute(self, node.otherwise, scope_in(scope))
   end
end

run["for"] = function(self, node, scope)
   local value = evaluate(self, node.iterable, scope)
   self.line = node.line
   return loop_over(self, node, scope, value, 1)
end

-- Macros ----------------------------------------------------------------------------------------

-- Assigns the arguments of a macro that belong to none of its parameters to varargs, kwargs and
-- caller. Raises an error if the macro's body does not use these names.
local function bind_rest(node, inner, args, named)
   local count, rest, others = #node.parameters, {}, values.dict()
   for i = count + 1, #args do rest[#rest + 1] = args[i] end
   local caller = named.caller
   named.caller = nil
   if node.takes_varargs then
      inner.varargs = values.tuple(rest)
   elseif #rest > 0 then
      fail("macro '%s' takes not more than %d argument(s)", node.name or "caller", count)
   end
   if node.takes_caller then
      inner.caller = caller or values.undefined "No caller defined"
   elseif caller and node.takes_kwargs then
      named.caller = caller
   elseif caller then
      fail("macro '%s' was invoked with two values for the special caller argument or has no use "
         .. "for it", node.name)
   end
   local names = {}
   for name in pairs(named) do names[#names + 1] = name end
   table.sort(names)
   for _, name in ipairs(names) do
      if not node.takes_kwargs then
         fail("macro '%s' takes no keyword argument '%s'", node.name or "caller", name)
      end
      values.put(others, name, named[name])
   end
   if node.takes_kwargs then inner.kwargs = others end
end

local function make_macro(node, scope)
   local names = {}
   for i, parameter in ipairs(node.parameters) do names[i] = parameter.name end
   local macro = values.new_function(node.name or "caller", function(self, args, named)
      local inner, given = scope_in(scope, node), {}
      for i, parameter in ipairs(node.parameters) do
         local value = args[i]
         if named[parameter.name] ~= nil then
            if value ~= nil then
               fail("macro '%s' got multiple values for argument '%s'", node.name or "caller",
                  parameter.name)
            end
            value, named[parameter.name] = named[parameter.name], nil
         end
         given[i] = value
      end
      bind_rest(node, inner, args, named)
      for i, parameter in ipairs(node.parameters) do
         local value = given[i]
         if value == nil and parameter.default then
            value = evaluate(self, parameter.default, inner)
         elseif value == nil then
            value = values.undefined(("parameter '%s' was not provided"):format(parameter.name))
         end
         inner[parameter.name] = value
      end
      return capture(self, node.body, inner)
   end)
   macro.is_macro = true
   macro.fields = {name = node.name or "caller", arguments = values.tuple(names),
      catch_kwargs = node.takes_kwargs, catch_varargs = node.takes_varargs,
      caller = node.takes_caller}
   return macro
end

function run.macro(_, node, scope) scope[node.name] = make_macro(node, scope) end

function run.call_block(self, node, scope)
   local callee = evaluate(self, node.call.a, scope)
   local args, named = arguments_of(self, node.call.args, scope)
   named.caller = make_macro(node.macro, scope)
   self.line = node.line
   self:write(values.text(self:call(callee, args, named)))
end

--- Evaluates a template. Raises {template = message, line = line} if the template fails.
---@param nodes table[]
---@param variables table<string, any>  Lua values by name
---@return string text
---@return integer[][] generated  the first and last byte of each part inside {% generation %}
function M.render(nodes, variables)
   local main = {n = 0, size = 0}
   local self = setmetatable({out = main, main = main, steps = 0, depth = 0, line = 1,
      generated = {}}, Evaluator)
   local ok, why = pcall(execute, self, nodes, scope_in(variables, nodes))
   if ok then return table.concat(main), self.generated end
   if type(why) == "table" and why.template then why.line = why.line or self.line end
   error(why, 0)
end

return M
