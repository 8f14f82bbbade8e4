-- manual.lua - finds the manual's text on a function, class or name. The text on an operator comes
-- from the table that is generated with the operators (`tlua.manual`), and the text on Lua code
-- from the comments in its source.

local torch = require "tlua"
local comments = require "tlua.repl.comments"
local declarations = require "tlua.repl.declarations"
local issubclass = require "tlua.class".issubclass
local lazy = require "tlua.lazy"

local M = {}

-- Returns a table from the operators' paths, such as "torch.add", to their texts.
local function operators()
   local found, texts = pcall(require, "tlua.manual")
   return found and texts or {}
end

-- Names -------------------------------------------------------------------------------------------

-- Returns the text of the operator with a given alias, such as torch.abs for "torch.absolute".
local function by_alias(texts, path)
   local owner, name = path:match("^(.*%.)(.-)$")
   for other, text in pairs(texts) do
      if other:sub(1, #owner) == owner and text:find("\nalias: " .. name .. "\n", 1, true) then
         return text
      end
   end
end

-- Returns the manual's text on an operator, given a name in any form: add, torch.add, Tensor.add,
-- x:add_.
local function operator(name)
   local texts = operators()
   local path = name:gsub("^Tensor%.", ""):gsub("^[%w_]+:", ""):gsub("^torch%.", "")
   -- the functions of torch.cuda and torch.sim share one text
   local twin = path:gsub("^sim%.", "cuda.")
   for _, name_tried in ipairs {path, (path:gsub("_$", "")), twin} do
      local candidate = "torch." .. name_tried
      local text = texts[candidate] or by_alias(texts, candidate)
      if text then return text end
   end
end

--- Returns the value of a name such as "nn.Linear", and the module that defines it.
---@param name string
---@return any value
---@return string? module
function M.resolve(name)
   local value, module = torch, nil
   if name == "" or not torch.has(name) then return nil end
   for part in name:gsub("^torch%.", ""):gmatch("[^.]+") do
      module = lazy.fields(value)[part] or module
      value = value[part]
   end
   return value, module
end

local function is_class(value)
   local meta = type(value) == "table" and getmetatable(value)
   return type(meta) == "table" and meta.ancestors ~= nil
end

-- Returns the path of a function or table in the loaded tables below `torch`. If there are several
-- paths, returns the shortest one for which accept(path), if given, is true.
local function path_of(wanted, accept)
   local waiting, seen = {{"torch.", torch}, {"torch.", torch.Tensor}}, {}
   local at = 1
   while waiting[at] do
      local prefix, members = table.unpack(waiting[at])
      local below = {}
      for name, value in next, members do
         local public = type(name) == "string" and not name:find "^_"
         local found = public and value == wanted
         if found and (not accept or accept(prefix .. name)) then return prefix .. name end
         local open = public and type(value) == "table" and not seen[value] and not is_class(value)
         if open and value ~= package.loaded and value ~= _G then below[#below + 1] = name end
      end
      table.sort(below)
      for _, name in ipairs(below) do
         seen[members[name]] = true
         waiting[#waiting + 1] = {prefix .. name .. ".", members[name]}
      end
      at = at + 1
   end
end

-- Texts -------------------------------------------------------------------------------------------

local function join(parts)
   local text = {}
   for _, part in ipairs(parts) do
      if part and part ~= "" then text[#text + 1] = part end
   end
   return table.concat(text, "\n\n")
end

local function heading(lines)
   return comments.layout(declarations.heading(lines))
end

-- Returns a call as text: "nn.Linear(in_features, out_features, bias = true, ...)".
local function call_text(name, params)
   return comments.list(name .. "(", declarations.arguments(params), ")")
end

-- Returns a line for each parameter of a declaration: its name, its type and its text.
local function params_text(declared)
   local rows = {}
   for i, p in ipairs(declared.params) do
      local kind = p.type ~= "" and p.type or "any"
      rows[i] = {
         name = p.name .. (p.optional and p.default == nil and p.name ~= "..." and "?" or ""),
         text = kind .. ((p.text or "") ~= "" and "  " .. p.text or ""),
      }
   end
   if declared.about_options then
      rows[#rows + 1] = {name = "options?", text = "table  " .. declared.about_options}
   end
   return comments.table(rows)
end

-- Returns the text on a function in Lua, or on a callable table that a comment names; nil if its
-- source or comment cannot be found.
local function function_text(name, fn)
   local declared = type(fn) == "function" and declarations.of_function(name or "function", fn)
      or type(fn) == "table" and declarations.of_named("torch." .. name:gsub("^torch%.", ""))
   if not declared then return nil end
   return join {
      call_text(name or declared.signature and declared.signature.title or "function",
         declared.params),
      comments.layout(declared.text), params_text(declared),
   }
end

-- Returns the text of a call of a class's objects, if the method `forward` has a signature.
local function forward_text(class)
   local forward = rawget(class, "forward")
   local declared = forward and declarations.of_function("object", forward)
   return declared and declared.signature and call_text("object", declared.params)
end

local function fields_text(fields)
   local rows = {}
   for i, field in ipairs(fields) do
      rows[i] = {name = field.name, text = field.type .. "  " .. field.text}
   end
   return rows[1] and "Fields:\n" .. comments.table(rows) or ""
end

local function methods_text(declared)
   local names = {}
   for i, method in ipairs(declared.methods) do names[i] = method.name end
   return names[1] and comments.list("Methods: ", names, "")
end

-- Returns the text on a class. `module` is the module that it was loaded from, if that is known.
local function class_text(class, module)
   local declared = declarations.of_class(class.__name, class, module)
   if not declarations.source_lines(declared.chunk) then return nil end
   local is_optimizer = issubclass(class, torch.optim.Optimizer)
   local with_methods = is_optimizer -- the text on an optimizer lists the methods of the base class
      and declarations.of_class("optim.Optimizer", torch.optim.Optimizer) or declared
   local computed = declared.is_twin and operator(declared.see)
   return join {
      call_text(class.__name, declared.params), comments.layout(declared.text),
      computed and computed:match "\n\n(.*)$":gsub("\n\n    .*$", "") or "",
      params_text(declared), fields_text(declared.fields),
      forward_text(class) or "", methods_text(with_methods) or "",
      declared.see and ('See also help "%s".'):format(declared.see:gsub("^torch%.", "")),
   }
end

-- Returns the first sentence of the manual about value[key], which is an operator or a function in
-- Lua. `name` is the table's name.
local function first_sentence(name, value, key)
   local text = operators()[("%s.%s"):format(name, key)]
   if text then return comments.first_sentence(text:match "\n\n(.*)$" or "") end
   local found, field = pcall(function() return value[key] end)
   local declared = found and type(field) == "function" and declarations.of_function(key, field)
   return declared and comments.first_sentence(comments.layout(declared.text)) or ""
end

-- A list with more names than this shows only names, without a sentence on each.
local most_sentences <const> = 40

-- Returns the text on a table of functions, classes and other tables, with a line on each.
local function table_text(name, value, about)
   local names, lines = {}, {}
   for key in next, value do names[key] = true end
   for key in pairs(lazy.fields(value)) do names[key] = true end
   local sorted = {}
   for key in pairs(names) do
      if type(key) == "string" and not key:find "^_" then sorted[#sorted + 1] = key end
   end
   if #sorted == 0 then return about end
   table.sort(sorted)
   local told = 0
   for i, key in ipairs(sorted) do
      local text = #sorted <= most_sentences and first_sentence(name, value, key) or ""
      lines[i] = {name = key, text = text}
      if text ~= "" then told = told + 1 end
   end
   local short = name:gsub("^torch%.", "")
   return join {
      name, about or "",
      told * 2 > #sorted and comments.table(lines) or comments.list("It has ", sorted, "."),
      ('help "%s.%s" tells more.'):format(short, sorted[1]),
   }
end

local function by_name(name)
   local text = operator(name)
   if text then return text end
   local value, module = M.resolve(name)
   if is_class(value) then return class_text(value, module) end
   if type(value) == "function" then return function_text(name, value) end
   local meta = type(value) == "table" and getmetatable(value)
   local called = meta and meta.__call and function_text(name, value)
   if called then return called end
   if type(value) ~= "table" or value == torch or getmetatable(value)
      and next(lazy.fields(value)) == nil and not module then
      return nil
   end
   local lines = module and declarations.source_lines(module)
   return table_text("torch." .. name:gsub("^torch%.", ""), value, lines and heading(lines))
end

-- Returns the text on a loaded module, from the first lines of its file.
local function module_text(value)
   local about
   for name, loaded in next, package.loaded do
      if loaded == value and name:find("^tlua%.") then
         local lines = declarations.source_lines(name)
         about = lines and heading(lines)
      end
   end
   local path = type(value) == "table" and value ~= torch and path_of(value)
   return path and table_text(path, value, about) or about
end

-- Returns the set of the parameters' names in the calls at the beginning of an operator's text,
-- such as "torch.sum(self, dim, keepdim = false, {dtype})".
local function names_in_calls(text)
   local names = {}
   local calls = text:match "^(.-)\n%s*%->" or text:match "^(.-)\n\n"
   for call in calls:gmatch "%b()" do
      for name in call:gsub("=%s*[^,}]+", ""):gmatch "[%a_][%w_]*" do names[name] = true end
   end
   names.self = nil
   return names
end

--- Returns the names that a call may have in its table of options.
---@param value any  a function or a class
---@return table<string, true>
function M.options(value)
   local declared
   if is_class(value) then
      declared = declarations.of_class(value.__name, value)
   elseif type(value) == "function" then
      declared = declarations.of_function("function", value)
   end
   if not declared then
      local text = type(value) == "function" and M.help(value)
      return text and text:find "\n\n" and names_in_calls(text) or {}
   end
   local names = {}
   for _, p in ipairs(declared.params) do
      if p.default ~= nil or p.optional and p.name ~= "options" then names[p.name] = true end
      for _, option in ipairs(p.options or {}) do names[option.name] = true end
   end
   return names
end

--- Returns the manual's text on a function, a class, an object of a class, or a name such as "add",
--- "torch.add" or "nn.Linear"; nil if it has none.
---@param subject any
---@return string?
function M.help(subject)
   if type(subject) == "string" then return by_name(subject) end
   if type(subject) == "function" then
      local text
      path_of(subject, function(path)
         text = by_name(path)
         return text
      end)
      return text or function_text(nil, subject)
   end
   local class = is_class(subject) and subject or getmetatable(subject)
   if is_class(class) then return by_name(class.__name) or class_text(class) end
   return module_text(subject)
end

return M
