-- declarations.lua - collects the declarations of all public names in one table. The sources are
-- the entries of operators (build/gen/operators.lua), the annotations of C functions
-- (src/lua/types*.lua), and the doc comments of Lua sources. A declaration is
--
--    {path =, kind = "function"|"class"|"method"|"module"|"constant", calls = {...}, text = lines,
--     params = {{name =, type =, default =, optional =, text =}}, returns = {{type =, text =}},
--     fields =, methods =, parent =, aliases =, family =, file =, line =}

local torch = require "tlua"
local args = require "tlua.args"
local comments = require "tlua.repl.comments"
local names = require "names"
local of_lua = require "tlua.repl.declarations"
local packages = require "tlua.packages"
local read_source = require "tlua.repl.source"

local source_lines = of_lua.source_lines

local M = {show = of_lua.show, call = of_lua.call}

-- Returns a source's path relative to the repository. The source is given as "=tlua:nn/Linear.lua"
-- or as the module name "tlua.nn.Linear".
local function file_of(name)
   local inner = name:match "^=tlua:(.*)$"
   if not inner and name:find "^tlua%." then inner = name:sub(6):gsub("%.", "/") .. ".lua" end
   if inner and not read_source(name) then
      local path = select(3, packages.source(name))
      return path and path:match "rocks/.*$"
   end
   return inner and "lua/tlua/" .. inner or nil
end


local function trim(lines)
   while lines[1] == "" do table.remove(lines, 1) end
   while lines[#lines] == "" do lines[#lines] = nil end
   return lines
end

-- Returns the parameters and options that a doc comment describes but the function neither declares
-- nor reads. The names `options` and `...` are always allowed.
local function unread(signature, tags, fn)
   local list, formal = {}, {}
   for i = 1, 255 do
      local name = debug.getlocal(fn, i)
      if not name then break end
      formal[name] = true
   end
   local info = debug.getinfo(fn, "S")
   local lines = source_lines(info.source)
   local body = lines and table.concat(lines, "\n", info.linedefined, info.lastlinedefined) or ""
   local function check(name)
      local is_read = signature.by_name[name] or formal[name]
         or body:find("%f[%w_]" .. name .. "%f[^%w_]")
         -- a function that takes `fn` and forwards `...` also has the options of fn
         or name == "fn" and body:find("...)", 1, true)
      if not is_read then list[#list + 1] = name end
   end
   for _, tag in ipairs(of_lua.parameters(tags)) do
      if tag.name ~= "options" and tag.name ~= "..." then check(tag.name) end
      if tag.name == "options" then
         for _, option in ipairs(tag.options or {}) do check(option.name) end
      end
   end
   return list
end

-- Adds two fields to the declaration of a Lua function: its source file, and the parameters that
-- its doc comment describes but the function does not use.
local function in_repository(declared)
   if not declared then return nil end
   declared.file = file_of(declared.chunk)
   declared.unread = declared.signature
      and unread(declared.signature, declared.tags, declared.body)
   for _, method in ipairs(declared.methods or {}) do
      if method.chunk then in_repository(method) end
   end
   return declared
end

-- Returns the declaration of a layer. A layer that computes one operator and has no text of its own
-- gets the operator's text.
local function of_class(entry, context)
   local declared = in_repository(of_lua.of_class(entry.path, entry.value, entry.module))
   if declared.is_twin then
      local operators = context.operators
      local op = operators[declared.see] or operators[declared.see:gsub("nn%.functional%.", "")]
      local at = 2
      for row in (op and op[1].text or ""):gmatch "[^\n]+" do
         table.insert(declared.text, at, row)
         at = at + 1
      end
   end
   local parent = getmetatable(entry.value).parent
   while parent and not context.classes[parent] do parent = getmetatable(parent).parent end
   declared.parent = parent and parent.__name
   return declared
end

-- Functions in C ----------------------------------------------------------------------------------

local function read(path)
   local file <close> = assert(io.open(path, "rb"))
   return file:read "a"
end

-- Reads a file of annotations. `found` receives the declared functions, classes and constants by
-- path.
local function annotated(path, found)
   local lines = {}
   for line in (read(path) .. "\n"):gmatch "([^\n]*)\n" do lines[#lines + 1] = line end
   for i, line in ipairs(lines) do
      local owner, separator, name = line:match "^function ([%w_.]-)([.:])([%w_]+)%(.*%) end$"
      local constant = not name and line:match "^(torch[%w_.]*) = "
      local class = line:match "^%-%-%-@class ([%w_.]+)"
      if name or constant or class then
         local last = i
         if class then
            while lines[last] and lines[last]:find "^%-%-%-" do last = last + 1 end
         end
         local text, tags = comments.take(comments.above(lines, last))
         local params = of_lua.parameters(tags)
         local at = constant or class or
            (owner == "Tensor" and "torch.Tensor" or owner) .. "." .. name
         local method = separator == ":"
         found[class and "class " .. at or at] = of_lua.complete {
            path = at, text = trim(text), params = params, returns = of_lua.results(tags),
            fields = of_lua.fields(tags), method = method, file = path, line = i,
            kind = name and "function" or class and "class" or "constant",
            calls = name and {M.call(method and "x:" .. name or at, params)} or {},
         }
      end
   end
end

-- Operators ---------------------------------------------------------------------------------------

-- Returns the parameters of an overload. An in-place function has neither the option `out` nor
-- `inplace`.
local function params_of(form, in_place)
   if not in_place then return form.params end
   local list = {}
   for _, p in ipairs(form.params) do
      if p.name ~= "out" and p.name ~= "inplace" then list[#list + 1] = p end
   end
   return list
end

local function of_operator(path, forms, in_place)
   local first = forms[1]
   local calls, text = {}, {}
   for i, form in ipairs(forms) do
      for _, call in ipairs(form.calls) do calls[#calls + 1] = call end
      if i > 1 then text[#text + 1] = "" end
      local told = form.text .. form.example .. "\n"
      for line in told:gmatch "([^\n]*)\n" do text[#text + 1] = line end
   end
   return of_lua.complete {
      path = path, kind = "function", calls = calls, text = trim(text),
      params = params_of(first, in_place), returns = first.returns, file = first.file,
      line = first.line, family = first.family, forms = forms,
   }
end

-- Returns the operator to which a public name refers. The name may be an alias or an in-place form,
-- or it may be the same function in another table.
local function operator_for(path, operators, aliases)
   for _, name in ipairs {path, (path:gsub("_$", "")), (path:gsub("^torch%.Tensor%.", "torch.")),
      (path:gsub("^torch%.Tensor%.", "torch."):gsub("_$", "")),
      (path:gsub("^torch%.nn%.functional%.", "torch."):gsub("_$", ""))} do
      local at = operators[name] and name or aliases[name]
      if at then return at end
   end
end

local function aliases_of(operators)
   local found = {}
   for path, forms in pairs(operators) do
      for _, form in ipairs(forms) do
         for _, alias in ipairs(form.alias) do found[path:gsub("[%w_]+$", alias)] = path end
      end
   end
   return found
end

-- All ---------------------------------------------------------------------------------------------

local function of_module(entry, binding)
   local lines = entry.module and source_lines(entry.module)
   local declared = binding[entry.path] or of_lua.of_named(entry.path, nil, "module")
   return {
      path = entry.path, kind = "module", calls = {}, params = {}, returns = {},
      text = declared and declared.text or lines and of_lua.heading(lines) or {},
      module = entry.module,
   }
end

-- Returns the declaration of a value that a doc comment describes, or of a module that has a
-- metatable.
local function of_value(entry, binding)
   local is_function = args.is_callable(entry.value) and not entry.module
   local kind, owner = is_function and "function" or "constant", entry.path:match "^(.*)%."
   local declared = of_lua.of_named(entry.path, nil, kind)
      -- a doc comment above the owner's table describes all constants in that table
      or entry.kind == "constant" and of_lua.of_named(owner, nil, kind)
   if declared then declared.path = entry.path end
   if declared then return in_repository(declared) end
   return entry.module and of_module(entry, binding) or nil
end

local function declare(entry, context)
   local path = entry.path
   local binding = context.binding
   if entry.kind == "module" or path == "torch.Tensor" then return of_module(entry, binding) end
   if entry.kind == "class" then return of_class(entry, context) end
   local twin = path:gsub("^torch%.sim%.", "torch.cuda.")
   local known = binding[path] or binding[twin]
      or binding[twin:gsub("^torch%.cuda%.memory%.", "torch.cuda."):gsub("%.random%.", ".")]
   for _, alias in ipairs(entry.aliases) do known = known or binding[alias] end
   if entry.kind ~= "function" then
      local declared = known or of_value(entry, binding)
      if declared and entry.kind == "constant" then declared.value = tostring(entry.value) end
      return declared
   end
   local operator = operator_for(path, context.operators, context.aliases)
   if operator then
      local in_place = path:sub(-1) == "_" and operator:sub(-1) ~= "_"
      return of_operator(path, context.operators[operator], in_place),
         operator ~= path and operator or nil
   end
   return in_repository(of_lua.of_function(path, entry.value))
      or known and setmetatable({path = path}, {__index = known})
end

-- Returns the names of the library's loaded modules, and of all modules that their sources mention
-- directly or through other modules.
local function modules_named()
   local found, waiting = {}, {}
   local function add(module)
      if module:find "^tlua%." and not found[module] then
         found[module] = true
         waiting[#waiting + 1] = module
      end
   end
   for module in pairs(package.loaded) do add(module) end
   while waiting[1] do
      for _, line in ipairs(source_lines(table.remove(waiting)) or {}) do
         for module in line:gmatch '"(tlua%.[%w_.]*[%w_])"' do add(module) end
      end
   end
   return found
end

-- Returns the methods that a source file defines with a doc comment for a variable.
local function methods_of(variable, class, lines, file)
   local methods = {}
   for i, line in ipairs(variable and lines or {}) do
      local owner, name = line:match "^%s*function ([%w_]+):([%a][%w_]*)%("
      local comment = owner == variable and comments.above(lines, i) or {}
      if #comment > 0 then
         local text, tags = comments.take(comment)
         local params = of_lua.parameters(tags)
         methods[#methods + 1] = {
            path = class .. ":" .. name, name = name, kind = "method", text = trim(text),
            params = params, returns = of_lua.results(tags),
            calls = {M.call("object:" .. name, params)}, file = file, line = i,
         }
      end
   end
   return methods
end

-- Collects the classes that a source file declares by tags, and the methods that the file defines
-- for them. If the tag of a class is in several files, the class has the methods of all of them;
-- the file with the text of the class comes first.
local function tagged_classes(module, found)
   local lines, file = source_lines(module) or {}, file_of(module)
   for i, line in ipairs(lines) do
      local name, parent = line:match "^%s*%-%-%-@class ([%w_.]+):?%s*([%w_.]*)"
      if not name then name, parent = line:match "^%s*%-%-%-@enum ([%w_.]+)", "" end
      if name then
         local last = i
         while lines[last] and lines[last]:find "^%s*%-%-%-" do last = last + 1 end
         local text, tags = comments.take(comments.above(lines, last))
         local class = {
            path = name, name = name, kind = "class", text = trim(text), calls = {}, params = {},
            returns = {}, fields = of_lua.fields(tags), aliases = {}, is_value = true,
            parent = parent ~= "" and parent or nil, file = file, line = i,
         }
         local variable = (lines[last] or ""):match "^%s*local ([%w_]+)"
         class.methods = methods_of(variable, name, lines, file)
         local known = found[name]
         local first, second = class, known
         if known and #class.text == 0 then first, second = known, class end
         if second then
            table.move(second.methods, 1, #second.methods, #first.methods + 1, first.methods)
         end
         found[name] = first
      end
   end
end

-- Returns the classes that no public table contains but that public functions take or return. Such
-- classes are defined in C or declared by tags in a Lua source.
--@param all table[]
--@param binding table<string, table>
--@return table[]
function M.classes_of_values(all, binding)
   local found, public, list = {}, {}, {}
   local modules, files = {}, {} -- several modules may come from one file
   for module in pairs(modules_named()) do modules[file_of(module) or module] = module end
   for file in pairs(modules) do files[#files + 1] = file end
   table.sort(files)
   for _, file in ipairs(files) do tagged_classes(modules[file], found) end
   for _, declared in pairs(binding) do
      if declared.kind == "class" then
         declared.name, declared.methods, declared.is_value = declared.path, {}, true
         declared.aliases, found[declared.path] = {}, declared
      end
   end
   for _, declared in ipairs(all) do
      if declared.kind == "class" then public[declared.name or ""] = true end
   end
   local function look(declared)
      for _, key in ipairs {"params", "returns", "fields"} do
         local rows = declared[key] or {}
         for _, row in ipairs(rows) do
            for name in row.type:gmatch "[%a_][%w_.]*[%w_]" do
               local class = found[name]
               if class and not public[name] then
                  public[name] = true
                  list[#list + 1] = class
                  look(class)
                  if class.parent then look {returns = {{type = class.parent}}} end
               end
            end
         end
      end
      for _, method in ipairs(declared.methods or {}) do look(method) end
   end
   for _, declared in ipairs(all) do look(declared) end
   return list
end

--- Counts all names, the names with an example that shows output, all parameters, and the
--- parameters with a description.
---@param all table[]  declarations
---@return {names: integer, examples: integer, parameters: integer, told: integer}
function M.count(all)
   local n = {names = 0, examples = 0, parameters = 0, told = 0}
   local function add(declared)
      n.names = n.names + 1
      if table.concat(declared.text, "\n"):find "%-%-> " then n.examples = n.examples + 1 end
      for _, p in ipairs(declared.params or {}) do
         n.parameters = n.parameters + 1
         if of_lua.is_told(declared, p) then n.told = n.told + 1 end
      end
   end
   for _, declared in ipairs(all) do
      add(declared)
      for _, method in ipairs(declared.methods or {}) do add(method) end
   end
   return n
end

--- Returns all declarations, ordered by path. A declaration without a text has the field `missing`.
---@param root string  the root of the repository
---@param gen string  the folder of generated files
---@return table[] declarations
function M.all(root, gen)
   local operators, binding = dofile(gen .. "/operators.lua"), {}
   local list = assert(io.popen(("find '%s/src/lua' -name 'types*.lua'"):format(root)))
   for path in list:lines() do annotated(path, binding) end
   list:close()
   for _, declared in pairs(binding) do declared.file = declared.file:sub(#root + 2) end
   local context = {operators = operators, binding = binding, aliases = aliases_of(operators),
      classes = {}}
   local all, walked = {}, names.walk(torch)
   for _, entry in ipairs(walked) do
      if entry.kind == "class" then context.classes[entry.value] = true end
   end
   for _, entry in ipairs(walked) do
      local declared, same = declare(entry, context)
      declared = declared or {path = entry.path, kind = entry.kind, missing = true}
      declared.aliases, declared.same_as = entry.aliases, same
      all[#all + 1] = declared
   end
   for _, declared in ipairs(M.classes_of_values(all, binding)) do all[#all + 1] = declared end
   table.sort(all, function(a, b) return a.path < b.path end)
   return all, context
end

return M
