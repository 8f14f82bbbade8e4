-- argcheck.lua - the package argcheck, which checks the arguments of functions. A program describes
-- each argument by a rule such as {name = "x", type = "number", default = 0}. From the rules it
-- gets a function that takes the arguments either in order or as one table with names.

local tlua = require "tlua"
local classes = require "tlua.torch7.classes"

--- A program may replace the fields of this table. env.istype(value, name) returns whether a value
--- has the type that a rule names: a type of Lua, a class of Torch7 or a pattern for names of
--- classes.
local env = {}

function env.istype(value, name)
   if name == "*" then return value ~= nil end
   return classes.type(value) == name or type(value) == name
      or classes.metatype(value) ~= nil and classes.isTypeOf(value, name)
end

-- Maps each function that argcheck has returned to the rules that it checks.
local known = setmetatable({}, {__mode = "k"})

local function is_optional(rule)
   return rule.opt or rule.default ~= nil or rule.defaultf or rule.defaulta
end

local function check_rule(rule, i)
   local where = ("argcheck: rule %d"):format(i)
   if type(rule) ~= "table" then
      tlua.raise(("%s: expected a table, got %s"):format(where, type(rule)))
   end
   if type(rule.name) ~= "string" then
      tlua.raise(("%s: name: expected a string, got %s"):format(where, type(rule.name)))
   end
   if type(rule.type) ~= "string" then
      tlua.raise(("%s: the type of %s: expected a string, got %s"):format(where, rule.name,
         type(rule.type)))
   end
   for _, key in ipairs {"check", "defaultf"} do
      if rule[key] ~= nil and type(rule[key]) ~= "function" then
         tlua.raise(("%s: %s of %s: expected a function, got %s"):format(where, key, rule.name,
            type(rule[key])))
      end
   end
end

local function check_rules(rules)
   if type(rules) ~= "table" then
      tlua.raise("argcheck: expected a table of rules, got " .. type(rules))
   end
   local names = {}
   for i, rule in ipairs(rules) do
      check_rule(rule, i)
      if names[rule.name] then
         tlua.raise(("argcheck: two rules have the name %s"):format(rule.name))
      end
      names[rule.name] = true
   end
   for _, rule in ipairs(rules) do
      if rule.defaulta and not names[rule.defaulta] then
         tlua.raise(("argcheck: defaulta of %s: there is no argument %s"):format(rule.name,
            tostring(rule.defaulta)))
      end
   end
end

-- Messages ----------------------------------------------------------------------------------------

--- Returns the text that describes a function's arguments.
local function usage(rules)
   local lines, width = {}, 0
   for _, rule in ipairs(rules) do width = math.min(math.max(width, #rule.name), 40) end
   if rules.help or rules.doc then lines[1] = (rules.help or rules.doc) .. "\n" end
   lines[#lines + 1] = "> arguments:\n{"
   for _, rule in ipairs(rules) do
      local optional, default = is_optional(rule), ""
      if rule.default ~= nil then default = ("[default=%s]"):format(tostring(rule.default))
      elseif rule.defaulta then default = ("[default=%s]"):format(rule.defaulta)
      elseif rule.defaultf then default = "[has default]" end
      lines[#lines + 1] = ("  %s%-" .. width .. "s = %s%s  -- %s %s"):format(optional and "["
         or " ", rule.name, rule.type, optional and "]" or "", rule.help or "", default)
         :gsub("%s+$", "")
   end
   lines[#lines + 1] = "}"
   return table.concat(lines, "\n")
end

local function types_of(n, ...)
   local list = {}
   for i = 1, n do list[i] = classes.type((select(i, ...))) end
   return "(" .. table.concat(list, ", ") .. ")"
end

-- Matching ----------------------------------------------------------------------------------------

local function fits(rule, value)
   return env.istype(value, rule.type) and (not rule.check or rule.check(value) and true or false)
end

-- Assigns the arguments from number k to n to the rules from number i on. If an argument does not
-- fit an optional rule, the rule is skipped and the argument is tried with the next rule. Returns
-- whether every argument has a rule and every required rule has an argument.
local function match(rules, i, given, k, n, values)
   local rule = rules[i]
   if not rule then return k > n end
   if k <= n and fits(rule, given[k]) then
      values[rule.name] = given[k]
      if match(rules, i + 1, given, k + 1, n, values) then return true end
      values[rule.name] = nil
   end
   if not is_optional(rule) then return false end
   if k <= n and given[k] == nil and match(rules, i + 1, given, k + 1, n, values) then
      return true
   end
   return match(rules, i + 1, given, k, n, values)
end

-- Assigns the arguments in the table `named` to the rules from number `first` on, by their names.
-- Returns false if an argument does not fit.
local function match_named(rules, first, named, values)
   local by_name = {}
   for i = first, #rules do
      local rule = rules[i]
      local value = named[rule.name]
      by_name[rule.name] = true
      if value == nil and not is_optional(rule) then return false end
      if value ~= nil and not fits(rule, value) then return false end
      values[rule.name] = value
   end
   for key in next, named do
      if not by_name[key] then return false end
   end
   return true
end

local function is_plain_table(value)
   return type(value) == "table" and getmetatable(value) == nil
end

-- Returns a table that maps the names of arguments to their values. Returns nil if the arguments do
-- not fit the rules.
local function values_of(rules, n, given)
   local has_self = rules[1] and rules[1].name == "self"
   local at, values = has_self and 2 or 1, {}
   if not rules.nonamed and n == at and is_plain_table(given[at])
      and (not has_self or fits(rules[1], given[1]))
      and (next(given[at]) ~= nil or rules.noordered)
      and match_named(rules, at, given[at], values) then
      if has_self then values.self = given[1] end
      return values
   end
   values = {}
   if not rules.noordered and match(rules, 1, given, 1, n, values) then return values end
   if not rules.nonamed and n == at and is_plain_table(given[at]) and next(given[at]) == nil then
      values = {}
      if match_named(rules, at, given[at], values) then
         if has_self then values.self = given[1] end
         return values
      end
   end
   return nil
end

local function fill_defaults(rules, values)
   for _, rule in ipairs(rules) do
      if values[rule.name] == nil then
         if rule.default ~= nil then values[rule.name] = rule.default
         elseif rule.defaultf then values[rule.name] = rule.defaultf() end
      end
   end
   for _, rule in ipairs(rules) do
      if values[rule.name] == nil and rule.defaulta then
         values[rule.name] = values[rule.defaulta]
      end
   end
end

-- Returns the arguments in the order of the rules, or, if the rules have `pack`, as one table of
-- names and values.
local function results(rules, values)
   if rules.pack then return values end
   local list = {}
   for i, rule in ipairs(rules) do list[i] = values[rule.name] end
   return table.unpack(list, 1, #rules)
end

-- Returns the first set of rules that the arguments fit, and the values of the arguments by name.
-- An overloaded function has several sets of rules.
local function find(rules, n, given)
   local at = rules
   while at do
      local values = values_of(at, n, given)
      if values then return at, values end
      at = at.overload and known[at.overload]
   end
end

local function refuse(rules, n, ...)
   local texts, at = {}, rules
   while at do
      texts[#texts + 1] = usage(at)
      at = at.overload and known[at.overload]
   end
   return ("%s\n\ninvalid arguments: got %s"):format(table.concat(texts, "\n\nor\n\n"),
      types_of(n, ...))
end

--- Returns a function that checks its arguments. If `call` is given, or if the rules have the field
--- `call`, the new function calls it with the arguments and returns its results. Otherwise the new
--- function returns the arguments. Rules may have further fields: `quiet`, `pack`, `noordered`,
--- `nonamed`, `help` or `doc`, and `overload`. `overload` is another function that argcheck has
--- returned; if arguments do not fit the new rules, the rules of `overload` are tried.
---@param rules table
---@param call? function
---@return function
local function argcheck(rules, call)
   check_rules(rules)
   call = call or rules.call
   if call ~= nil and type(call) ~= "function" then
      tlua.raise("argcheck: call: expected a function, got " .. type(call))
   end
   if rules.overload ~= nil and not known[rules.overload] then
      tlua.raise("argcheck: overload: expected a function of argcheck, got "
         .. type(rules.overload))
   end
   local own = {}
   for key, value in pairs(rules) do own[key] = value end
   own.call = call
   local function checked(...)
      local n = select("#", ...)
      local chosen, values = find(own, n, {...})
      if not chosen then
         local problem = refuse(own, n, ...)
         if own.quiet then return false, problem end
         tlua.raise(problem)
      end
      fill_defaults(chosen, values)
      if chosen.call then
         if own.quiet then return true, chosen.call(results(chosen, values)) end
         return chosen.call(results(chosen, values))
      end
      if own.quiet then return true, results(chosen, values) end
      return results(chosen, values)
   end
   known[checked] = own
   return checked
end

return {argcheck = argcheck, env = env, usage = usage}
