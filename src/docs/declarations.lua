-- declarations.lua - one table of declarations for all public names, from where each is declared:
-- the entries of operators (build/gen/operators.lua), the annotations of functions in C
-- (src/lua/types*.lua), and the doc comments of the sources in Lua. A declaration is
--
--    {path =, kind = "function"|"class"|"method"|"module"|"constant", calls = {...}, text = lines,
--     params = {{name =, type =, default =, optional =, text =}}, returns = {{type =, text =}},
--     fields =, methods =, parent =, aliases =, family =, file =, line =}

local torch = require "tlua"
local args = require "tlua.args"
local checked = require "tlua.checked"
local comments = require "tlua.repl.comments"
local names = require "names"
local read_source = require "tlua.repl.source"
local types = require "types"

local M = {}

-- Sources -----------------------------------------------------------------------------------------

local cache = {}

-- The text of a package's file, which is not embedded: by its chunk's name or by its module's.
local function package_source(name)
   local chunk, module = name:match "^=tlua:(.*)$", name:match "^tlua%.(.*)$"
   local path = "rocks/" .. (chunk or module and module:gsub("%.", "/") .. ".lua" or "")
   for _, place in ipairs {path, (path:gsub("%.lua$", "/init.lua"))} do
      local file <close> = io.open(place, "rb")
      if file then return file:read "a", place end
   end
end

local function source_lines(name)
   if cache[name] == nil then
      local text = read_source(name) or package_source(name)
      cache[name] = text and {} or false
      for line in (text and text .. "\n" or ""):gmatch "([^\n]*)\n" do
         table.insert(cache[name], line)
      end
   end
   return cache[name] or nil
end

-- "=tlua:nn/Linear.lua" or "tlua.nn.Linear" as a path in the repository.
local function file_of(name)
   local inner = name:match "^=tlua:(.*)$"
   if not inner and name:find "^tlua%." then inner = name:sub(6):gsub("%.", "/") .. ".lua" end
   if inner and not read_source(name) then return select(2, package_source(name)) end
   return inner and "lua/tlua/" .. inner or nil
end

-- Tags --------------------------------------------------------------------------------------------

local function parameters(tags)
   local list = {}
   for i, tag in ipairs(tags.param or {}) do
      local type, text = types.split(tag.text)
      list[i] = {
         name = tag.name:gsub("%?$", ""), type = type, text = text,
         optional = tag.name:sub(-1) == "?",
      }
      list[i].options = types.fields(type)
   end
   return list
end

local function results(tags)
   local list = {}
   for i, tag in ipairs(tags["return"] or {}) do
      local type, text = types.split((tag.name .. " " .. tag.text):gsub("%s+$", ""))
      list[i] = {type = type, text = text}
   end
   return list
end

local function fields_of(tags)
   local list = {}
   for i, tag in ipairs(tags.field or {}) do
      local type, text = types.split(tag.text)
      list[i] = {name = tag.name, type = type, text = text}
   end
   return list
end

-- The signature that args.signature has made for a function, which holds it as an upvalue.
local function signature_of(fn)
   for i = 1, 255 do
      local name, parser = debug.getupvalue(fn, i)
      if not name then return nil end
      if type(parser) == "function" then
         for j = 1, 4 do
            local inner, declared = debug.getupvalue(parser, j)
            if inner == "signature" and type(declared) == "table" and declared.title then
               return args.declaration(declared)
            end
         end
      end
   end
end

-- Names of parameters and options in a doc comment that the signature does not have. A comment may
-- call a trailing table `options`, and a function that takes any arguments tells of `...`.
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
         or name == "fn" and body:find("...)", 1, true) -- the body of a scope, passed on
      if not is_read then list[#list + 1] = name end
   end
   for _, tag in ipairs(parameters(tags)) do
      if tag.name ~= "options" and tag.name ~= "..." then check(tag.name) end
      if tag.name == "options" then
         for _, option in ipairs(tag.options or {}) do check(option.name) end
      end
   end
   return list
end

-- Parameters of a signature: types and defaults are its own, words those of the doc comment. Those
-- that a function takes by itself come before.
local function of_signature(signature, tags)
   local words, list = {}, {}
   for _, tag in ipairs(parameters(tags)) do
      words[tag.name] = tag
      if not signature.by_name[tag.name] and tag.name ~= "options" and tag.name ~= "..." then
         list[#list + 1] = tag
      end
      for _, option in ipairs(tag.options or {}) do
         words[option.name] = words[option.name] or option
      end
   end
   for _, p in ipairs(signature) do
      local tag = words[p.name]
      list[#list + 1] = {
         name = p.name, type = types.of_signature(p.kinds), default = p.default,
         optional = p.optional, text = tag and tag.text or "",
      }
   end
   return list
end

local function show(value)
   if type(value) == "table" then
      local items = {}
      for i, item in ipairs(value) do items[i] = show(item) end
      return "{" .. table.concat(items, ", ") .. "}"
   end
   if math.type(value) == "float" then return ("%.14g"):format(value) end
   return type(value) == "string" and ("%q"):format(value) or tostring(value)
end
M.show = show

--- The call of a function with its parameters and their defaults.
---@param name string
---@param params table[]
---@return string
function M.call(name, params)
   local list = {}
   for i, p in ipairs(params) do
      if p.default ~= nil then
         list[i] = p.name .. " = " .. show(p.default)
      else
         list[i] = p.name .. (p.optional and "?" or "")
      end
   end
   return name .. "(" .. table.concat(list, ", ") .. ")"
end

-- Functions in Lua --------------------------------------------------------------------------------

local function comment_at(fn)
   local info = debug.getinfo(fn, "S")
   local lines = info.what == "Lua" and source_lines(info.source)
   if not lines then return nil, info end
   return comments.above(lines, info.linedefined), info
end

local function trim(lines)
   while lines[1] == "" do table.remove(lines, 1) end
   while lines[#lines] == "" do lines[#lines] = nil end
   return lines
end

-- A function's declaration; nil where it has no doc comment and no signature.
local function of_function(path, fn, shown)
   local method = checked.origin(fn)
   local comment, info = comment_at(method)
   if not comment then return nil end
   local text, tags = comments.take(comment)
   local signature = signature_of(fn)
   local params = signature and of_signature(signature, tags) or parameters(tags)
   text = trim(text)
   if #text == 0 and #(tags["return"] or {}) == 0 and #params == 0 then return nil end
   return {
      path = path, kind = "function", calls = {M.call(shown or path, params)}, text = text,
      params = params, returns = results(tags), file = file_of(info.source),
      line = info.linedefined, unread = signature and unread(signature, tags, method),
   }
end

-- Classes -----------------------------------------------------------------------------------------

-- The comment above the line that makes a class, which names it in quotes.
local function class_comment(lines, name)
   local short = name:match "[^.]+$"
   for i, line in ipairs(lines) do
      for quoted in line:gmatch '"([%w_.]+)"' do
         if quoted == name or quoted == short then return comments.above(lines, i), i end
      end
   end
   return {}, nil
end

-- Where classes are made that their own functions do not tell of, by a row of a table or a call of
-- define in a module that is loaded: name -> {comment, line, module}.
local definitions

local function find_definitions()
   definitions = {}
   local modules = {}
   for module in pairs(package.loaded) do
      if module:find "^tlua%." then modules[#modules + 1] = module end
   end
   table.sort(modules)
   for _, module in ipairs(modules) do
      local lines = source_lines(module) or {}
      for i, line in ipairs(lines) do
         local tagged = line:match "^%s*%-%-%-@class ([%w_.]+)"
         if tagged and not definitions[tagged] then
            local last = i
            while lines[last] and lines[last]:find "^%s*%-%-%-" do last = last + 1 end
            definitions[tagged] = {comments.above(lines, last), i, module}
         end
         local quoted = line:match 'define%s*%(?"([%w_]+)"' or line:match 'class%("([%w_.]+)"'
            or line:match '^%s*{"([%w_]+)"'
         local comment = quoted and not definitions[quoted] and comments.above(lines, i)
         if comment and #comment > 0 then definitions[quoted] = {comment, i, module} end
      end
   end
end

local function find_definition(name)
   if not definitions then find_definitions() end
   local found = definitions[name] or definitions[name:match "[^.]+$"]
   if found then return table.unpack(found) end
end

-- The head of a file that has one class says what the class is.
local function heading(lines)
   local last = 1
   while lines[last] and lines[last]:find "^%-%-" do last = last + 1 end
   local text = comments.above(lines, last)
   if text[1] then text[1] = text[1]:gsub("^%S+%.lua %- ", ""):gsub("^%l", string.upper) end
   return text
end

-- The options that an optimizer takes, with their defaults, as an instance knows them.
local function optimizer_params(class)
   if not require "tlua.class".issubclass(class, torch.optim.Optimizer) then return nil end
   local ok, made = pcall(class, {torch.ones(1, 1):requires_grad_(true)})
   if not ok then return nil end
   local list, order = {{name = "params", type = "Tensor[]|table[]", text = ""}}, {}
   for name in pairs(made.defaults) do order[#order + 1] = name end
   table.sort(order, function(a, b)
      if (a == "lr") ~= (b == "lr") then return a == "lr" end
      return a < b
   end)
   for _, name in ipairs(order) do
      local default = made.defaults[name]
      local kind = type(default) == "table" and "number[]" or type(default)
      list[#list + 1] = {
         name = name, type = kind, default = default, optional = true, named = true, text = "",
      }
   end
   return list
end

-- The function that a layer or loss computes: nn.AvgPool2d, nn.functional.avg_pool2d.
local function function_of(name)
   local short = name:match "^nn%.(%w+)$"
   if not short then return nil end
   short = short:lower():gsub("loss2d$", "loss")
   for other in pairs(torch.nn.functional) do
      local flat = other:gsub("_", "")
      if flat == short or flat .. "loss" == short then return "torch.nn.functional." .. other end
   end
end

-- Methods that classes define for the library's use.
local for_the_library = {extra_repr = true, check = true, rule = true, adopt = true}

local function methods_of(class, path)
   local list = {}
   for key, value in next, class do
      if type(key) == "string" and not key:find "^_" and type(value) == "function"
         and not for_the_library[key] then
         local declared = of_function(path .. ":" .. key, value, "object:" .. key)
         local parent = getmetatable(class).parent
         while not declared and parent do -- a method that overrides another keeps its declaration
            local inherited = rawget(parent, key)
            declared = inherited and of_function(path .. ":" .. key, inherited, "object:" .. key)
            parent = getmetatable(parent).parent
         end
         list[#list + 1] = declared or {path = path .. ":" .. key, missing = true}
         list[#list].kind, list[#list].name = "method", key
      end
   end
   table.sort(list, function(a, b) return a.name < b.name end)
   return list
end

local function of_class(entry, context)
   local operators = context.operators
   local class, path = entry.value, entry.path
   local name, make = class.__name, class.__init
   local own = debug.getinfo(make, "S")
   local chunk = entry.module and source_lines(entry.module) and entry.module or own.source
   local lines = source_lines(chunk) or {}
   local above, line = class_comment(lines, name)
   if not line and own.source ~= chunk then
      chunk, lines = own.source, source_lines(own.source) or {}
      above, line = class_comment(lines, name)
   end
   if #above == 0 then
      local found, at, module = find_definition(name)
      if found then above, line, chunk = found, at, module end
   end
   local about, tags = comments.take(above)
   local making, arguments = {}, {}
   if rawget(class, "__init") and own.what == "Lua" then
      making, arguments = comments.take(comment_at(make) or {})
   end
   local signature = signature_of(make)
   local params = optimizer_params(class) or signature and of_signature(signature, arguments)
      or parameters(arguments)
   local text = trim(about)
   local computes = function_of(name)
   if #text == 0 and computes then
      local short = computes:gsub("^torch%.", "")
      text = {("Computes `%s` of its input, with the options given to the constructor."):format(
         short)}
      local op = operators[computes] or operators[computes:gsub("nn%.functional%.", "")]
      for row in (op and op[1].text or ""):gmatch "[^\n]+" do text[#text + 1] = row end
   end
   local methods, by_field = methods_of(class, path), {}
   local owner = class
   while owner do -- the nearest class that declares a field has the word
      local of_owner = owner == class and above or find_definition(owner.__name) or {}
      for _, field in ipairs(fields_of(select(2, comments.take(of_owner)))) do
         by_field[field.name] = by_field[field.name] or field
      end
      owner = getmetatable(owner).parent
   end
   for _, method in ipairs(methods) do
      local field = by_field[method.name]
      if method.missing and field then -- a tag `field` of the class declares it
         method.missing, method.text, method.params, method.returns = nil, {field.text}, {}, {}
         method.calls = {"object:" .. method.name .. (field.type:match "^fun(%b())" or "()")}
      end
   end
   local file_class = chunk:match "([%w_]+)$" == name:match "[^.]+$"
      or chunk:match "([%w_]+)%.lua$" == name:match "[^.]+$"
   if #text == 0 and file_class then text = trim(heading(lines)) end
   if #trim(making) > 0 then
      if #text > 0 then text[#text + 1] = "" end
      table.move(making, 1, #making, #text + 1, text)
   end
   local parent = getmetatable(class).parent
   while parent and not context.classes[parent] do parent = getmetatable(parent).parent end
   return {
      path = path, name = name, kind = "class", text = text, params = params, returns = {},
      calls = {M.call(path:gsub("^torch%.", ""), params)}, fields = fields_of(tags),
      methods = methods, parent = parent and parent.__name, see = computes,
      missing = #text == 0, unread = signature and unread(signature, arguments, make),
      file = file_of(line and chunk or own.source), line = line or own.linedefined,
      module = entry.module,
   }
end

-- Functions in C ----------------------------------------------------------------------------------

local function read(path)
   local file <close> = assert(io.open(path, "rb"))
   return file:read "a"
end

-- The annotations of a file: functions, classes and constants by path.
local function annotated(path, found)
   local lines = {}
   for line in (read(path) .. "\n"):gmatch "([^\n]*)\n" do lines[#lines + 1] = line end
   for i, line in ipairs(lines) do
      local owner, separator, name = line:match "^function ([%w_.]-)([.:])([%w_]+)%(.*%) end$"
      local constant = not name and line:match "^(torch%.[%w_.]+) = "
      local class = line:match "^%-%-%-@class ([%w_.]+)"
      if name or constant or class then
         local last = i
         if class then
            while lines[last] and lines[last]:find "^%-%-%-" do last = last + 1 end
         end
         local text, tags = comments.take(comments.above(lines, last))
         local params = parameters(tags)
         local at = constant or class or
            (owner == "Tensor" and "torch.Tensor" or owner) .. "." .. name
         local method = separator == ":"
         found[class and "class " .. at or at] = {
            path = at, text = trim(text), params = params, returns = results(tags),
            fields = fields_of(tags), method = method, file = path, line = i,
            kind = name and "function" or class and "class" or "constant",
            calls = name and {M.call(method and "x:" .. name or at, params)} or {},
         }
      end
   end
end

-- Operators ---------------------------------------------------------------------------------------

local function of_operator(path, forms)
   local first = forms[1]
   local calls, text = {}, {}
   for i, form in ipairs(forms) do
      for _, call in ipairs(form.calls) do calls[#calls + 1] = call end
      if i > 1 then text[#text + 1] = "" end
      for line in (form.text .. "\n"):gmatch "([^\n]*)\n" do text[#text + 1] = line end
   end
   return {
      path = path, kind = "function", calls = calls, text = trim(text), params = first.params,
      returns = first.returns, file = first.file, line = first.line, family = first.family,
      forms = forms,
   }
end

-- An operator by another of its names: an alias, the form in place, or its twin elsewhere.
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

local function of_module(entry)
   local lines = entry.module and source_lines(entry.module)
   return {
      path = entry.path, kind = "module", calls = {}, params = {}, returns = {},
      text = lines and trim(heading(lines)) or {}, module = entry.module,
   }
end

local function declare(entry, context)
   local path = entry.path
   local binding = context.binding
   if entry.kind == "module" or path == "torch.Tensor" then return of_module(entry) end
   if entry.kind == "class" then return of_class(entry, context) end
   local twin = path:gsub("^torch%.sim%.", "torch.cuda.")
   local known = binding[path] or binding[twin]
      or binding[twin:gsub("^torch%.cuda%.memory%.", "torch.cuda."):gsub("%.random%.", ".")]
   if entry.kind ~= "function" then
      return known or entry.kind == "constant" and {
         path = path, kind = "constant", calls = {}, params = {}, returns = {}, text = {},
         value = tostring(entry.value),
      } or nil
   end
   local operator = operator_for(path, context.operators, context.aliases)
   if operator then
      return of_operator(path, context.operators[operator]), operator ~= path and operator or nil
   end
   return of_function(path, entry.value) or known and setmetatable({path = path}, {__index = known})
end

-- The modules of the library that are loaded, and those that their sources name.
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
         for module in line:gmatch '"(tlua%.[%w_.]+)"' do add(module) end
      end
   end
   return found
end

-- The classes that a source declares by tags, with the methods that it defines for them.
local function tagged_classes(module, found)
   local lines = source_lines(module) or {}
   for i, line in ipairs(lines) do
      local name, parent = line:match "^%s*%-%-%-@class ([%w_.]+):?%s*([%w_.]*)"
      if not name then name, parent = line:match "^%s*%-%-%-@enum ([%w_.]+)", "" end
      if name and not found[name] then
         local last = i
         while lines[last] and lines[last]:find "^%s*%-%-%-" do last = last + 1 end
         local text, tags = comments.take(comments.above(lines, last))
         local class = {
            path = name, name = name, kind = "class", text = trim(text), calls = {}, params = {},
            returns = {}, fields = fields_of(tags), methods = {}, aliases = {}, is_value = true,
            parent = parent ~= "" and parent or nil, file = file_of(module), line = i,
         }
         local variable = (lines[last] or ""):match "^%s*local ([%w_]+)"
         for at, other in ipairs(variable and lines or {}) do
            local owner, method = other:match "^%s*function ([%w_]+):([%a][%w_]*)%("
            local comment = owner == variable and comments.above(lines, at) or {}
            if #comment > 0 then
               local about, of_method = comments.take(comment)
               local params = parameters(of_method)
               class.methods[#class.methods + 1] = {
                  path = name .. ":" .. method, name = method, kind = "method",
                  text = trim(about), params = params, returns = results(of_method),
                  calls = {M.call("object:" .. method, params)}, file = class.file, line = at,
               }
            end
         end
         found[name] = class
      end
   end
end

-- The classes of values that public functions take and return, and that are in no public table:
-- those of C, and those that a source declares by tags.
---@param all table[]
---@param binding table<string, table>
---@return table[]
function M.classes_of_values(all, binding)
   local found, public, list = {}, {}, {}
   for module in pairs(modules_named()) do tagged_classes(module, found) end
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

--- All declarations, in the order of their paths. One without a text has `missing`.
---@param root string  of the repository
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
