-- tests.lua - the tests of templates, as in `x is defined`. A test is a function(evaluator, value,
-- args, named).

local arguments = require "tlua.text.template.arguments"
local strings = require "tlua.text.template.strings"
local values = require "tlua.text.template.values"

local M = {}

local function define(name, holds)
   M[name] = function(_, value, args, named)
      arguments.take(name, args, named)
      return holds(value)
   end
end

local function of_kind(...)
   local kinds = {}
   for _, kind in ipairs {...} do kinds[kind] = true end
   return function(value) return kinds[values.kind(value)] or false end
end

define("undefined", of_kind "undefined")
define("defined", function(value) return values.kind(value) ~= "undefined" end)
define("none", of_kind "none")
define("boolean", of_kind "boolean")
define("true", function(value) return value == true end)
define("false", function(value) return value == false end)
define("integer", of_kind "integer")
define("float", of_kind "float")
define("number", of_kind("integer", "float", "boolean"))
define("string", of_kind "string")
define("mapping", of_kind "dict")
define("sequence", of_kind("string", "list", "tuple", "range", "dict", "undefined"))
define("iterable", of_kind("string", "list", "tuple", "range", "dict", "view", "generator",
   "undefined", "loop"))
define("callable", function(value)
   local kind = values.kind(value)
   return kind == "function" or kind == "undefined" or kind == "loop"
end)
define("lower", function(value) return strings.is_lower(values.text(value)) end)
define("upper", function(value) return strings.is_upper(values.text(value)) end)
define("escaped", function() return false end)

local function remainder(value, by)
   local number = values.number(value)
   if not number then
      if values.kind(value) == "undefined" then values.fail(value.message) end
      values.fail("expected a number, got %s", values.repr(value))
   end
   if by == 0 then values.fail "integer modulo by zero" end
   return number % by
end

define("odd", function(value) return remainder(value, 2) == 1 end)
define("even", function(value) return remainder(value, 2) == 0 end)

function M.divisibleby(_, value, args, named)
   local by = arguments.take("divisibleby", args, named, "num!")
   return remainder(value, arguments.integer("divisibleby", by)) == 0
end

local function comparison(sign, ...)
   for _, name in ipairs {...} do
      M[name] = function(evaluator, value, args, named)
         local other = arguments.take(name, args, named, "other!")
         return require "tlua.text.template.operators".compare(evaluator, sign, value, other)
      end
   end
end

comparison("==", "eq", "equalto", "==")
comparison("!=", "ne", "!=")
comparison("<", "lt", "lessthan", "<")
comparison("<=", "le", "<=")
comparison(">", "gt", "greaterthan", ">")
comparison(">=", "ge", ">=")
comparison("in", "in")

function M.sameas(_, value, args, named)
   local other = arguments.take("sameas", args, named, "other!")
   return rawequal(value, other) and math.type(value) == math.type(other)
end

function M.filter(_, value)
   return require "tlua.text.template.filters"[value] ~= nil
end

function M.test(_, value) return M[value] ~= nil end

return M
