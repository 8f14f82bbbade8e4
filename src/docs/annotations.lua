-- annotations.lua - prints the declarations of all public names as LuaLS annotations for editors.

local packages = require "tlua.packages"

local M = {}

local reserved = {
   ["repeat"] = true, ["end"] = true, ["and"] = true, ["or"] = true, ["not"] = true,
   ["in"] = true, ["function"] = true, ["for"] = true, ["goto"] = true,
}

-- Returns whether every part of a dotted path is a valid Lua name. `torch.nn.init.repeat` has an
-- invalid part, because `repeat` is a keyword.
local function is_writable(path)
   for part in path:gmatch "[^.:]+" do
      if reserved[part] or not part:find "^[%a_][%w_]*$" then return false end
   end
   return true
end

local function add_text(out, lines)
   for _, line in ipairs(lines or {}) do out[#out + 1] = "---" .. line end
end

local function name_of(p)
   if p.name == "..." then return "..." end
   return reserved[p.name] and p.name .. "_" or p.name
end

-- Returns an overload's parameters for an annotation. All keyword arguments become one options
-- table, which is the last parameter.
local function arranged(params, skip_self)
   local list, named = {}, {}
   for i, p in ipairs(params) do
      if not (skip_self and i == 1 and p.name == "self") then
         if p.named then
            named[#named + 1] = ("%s%s: %s"):format(p.name, p.optional and "?" or "", p.type)
         else
            list[#list + 1] = p
         end
      end
   end
   if named[1] then
      list[#list + 1] = {
         name = "options", optional = true, type = "{" .. table.concat(named, ", ") .. "}",
      }
   end
   return list
end

local function fun_text(params, returns)
   local list = {}
   for i, p in ipairs(params) do
      list[i] = ("%s%s: %s"):format(name_of(p), p.optional and p.name ~= "..." and "?" or "",
         p.type ~= "" and p.type or "any")
   end
   local types = {}
   for i, r in ipairs(returns) do
      types[i] = r.type:find "[|%s]" and "(" .. r.type .. ")" or r.type
   end
   return ("fun(%s)%s"):format(table.concat(list, ", "),
      types[1] and ": " .. table.concat(types, ", ") or "")
end

local function add_function(out, header, declared, skip_self)
   if not is_writable(header) then return end
   add_text(out, declared.text)
   for _, rows in ipairs {declared.params, declared.returns} do
      for _, row in ipairs(rows) do
         if row.type:find "%f[%w]T%f[%W]" and out[#out] ~= "---@generic T" then
            out[#out + 1] = "---@generic T"
         end
      end
   end
   for i = 2, #(declared.forms or {}) do
      local form = declared.forms[i]
      out[#out + 1] = "---@overload " .. fun_text(
         arranged(form.params, skip_self), form.returns)
   end
   local params, names = arranged(declared.params, skip_self), {}
   for i, p in ipairs(params) do
      names[i] = name_of(p)
      out[#out + 1] = ("---@param %s%s %s%s"):format(names[i],
         p.optional and names[i] ~= "..." and "?" or "", p.type ~= "" and p.type or "any",
         p.text and p.text ~= "" and "  " .. p.text or "")
   end
   for _, r in ipairs(declared.returns) do
      out[#out + 1] = "---@return " .. r.type .. (r.name and " " .. r.name or "")
         .. (r.text and r.text ~= "" and "  " .. r.text or "")
   end
   out[#out + 1] = ("function %s(%s) end\n"):format(header, table.concat(names, ", "))
end

-- Adds a function to the annotations. It is declared under its first path that is a valid Lua name;
-- a path below torch.Tensor makes it a method. Its other paths become assignments of the first
-- path. Editors follow an assignment to the text and the types, so no text is repeated. A function
-- that has the same name and text as an earlier function, such as torch.relu and
-- torch.nn.functional.relu, becomes an assignment as well; `printed` maps texts to the earlier
-- paths.
local function add_paths(out, declared, printed)
   local first
   for i = 0, #declared.aliases do
      local path = i == 0 and declared.path or declared.aliases[i]
      local method = path:match "^torch%.Tensor%.(.*)$"
      if is_writable(path) and not first and not method then
         local text = {}
         add_function(text, path:match "[^.]+$", declared, false)
         text = table.concat(text, "\n")
         first = printed[text]
         printed[text] = first or path
      end
      if is_writable(path) and first then
         out[#out + 1] = ("%s = %s\n"):format(path, first)
      elseif is_writable(path) then
         first = path
         add_function(out, method and "torch.Tensor:" .. method or path, declared, method ~= nil)
      end
   end
end

-- Returns the parameters for a constructor call with an options table: the required parameters,
-- then one table with all optional parameters. Returns nil if no parameter is optional.
local function with_table(params)
   local list, fields = {}, {}
   for _, p in ipairs(params) do
      if p.optional then
         fields[#fields + 1] = ("%s?: %s"):format(p.name, p.type)
      else
         list[#list + 1] = p
      end
   end
   if #fields == 0 then return nil end
   list[#list + 1] = {
      name = "options", optional = true, type = "{" .. table.concat(fields, ", ") .. "}",
   }
   return list
end

local function add_class(out, class)
   local first = #out + 1
   add_text(out, class.text)
   out[#out + 1] = "---@class " .. class.name .. (class.parent and ": " .. class.parent or "")
   for _, field in ipairs(class.fields) do
      out[#out + 1] = ("---@field %s %s%s"):format(field.name, field.type,
         field.text ~= "" and "  " .. field.text or "")
   end
   if class.is_value then -- no public table contains this class
      table.insert(out, first, "do")
      out[#out + 1] = "local value = {}\n"
      for _, method in ipairs(class.methods) do
         add_function(out, "value:" .. method.name, method)
      end
      out[#out + 1] = "end\n"
      return
   end
   local result = {{type = class.name}}
   local by_name = with_table(class.params)
   if not (class.params[2] and class.params[2].named) then
      out[#out + 1] = "---@overload " .. fun_text(class.params, result)
   end
   if by_name then out[#out + 1] = "---@overload " .. fun_text(by_name, result) end
   out[#out + 1] = class.path .. " = {}\n"
   for _, alias in ipairs(class.aliases or {}) do
      if is_writable(alias) then out[#out + 1] = ("%s = %s\n"):format(alias, class.path) end
   end
   for _, method in ipairs(class.methods) do
      if not method.missing then add_function(out, class.path .. ":" .. method.name, method) end
   end
end

-- The text at the beginning of Tensor's annotations. It also declares the type of the numbers that
-- torch.complex creates, because they have no class table such as torch.Tensor from which it could
-- be generated.
local tensor_head <const> = [[
---@class torch.ComplexNumber
---@field real number
---@field imag number
---@field abs fun(self: torch.ComplexNumber): number
---@field angle fun(self: torch.ComplexNumber): number
---@field conj fun(self: torch.ComplexNumber): torch.ComplexNumber
---@operator add(torch.ComplexNumber|number): torch.ComplexNumber
---@operator sub(torch.ComplexNumber|number): torch.ComplexNumber
---@operator mul(torch.ComplexNumber|number): torch.ComplexNumber
---@operator div(torch.ComplexNumber|number): torch.ComplexNumber
---@operator pow(torch.ComplexNumber|number): torch.ComplexNumber
---@operator unm: torch.ComplexNumber

---@class torch.Tensor
---@field shape integer[]
---@field dtype string
---@field device string
---@field grad torch.Tensor?
---@field grad_fn table?
---@field data torch.Tensor
---@field requires_grad boolean
---@field is_leaf boolean
---@field is_parameter boolean
---@field real torch.Tensor
---@field imag torch.Tensor
---@operator add(torch.Tensor|number): torch.Tensor
---@operator sub(torch.Tensor|number): torch.Tensor
---@operator mul(torch.Tensor|number): torch.Tensor
---@operator div(torch.Tensor|number): torch.Tensor
---@operator mod(torch.Tensor|number): torch.Tensor
---@operator pow(torch.Tensor|number): torch.Tensor
---@operator idiv(torch.Tensor|number): torch.Tensor
---@operator unm: torch.Tensor
torch.Tensor = {}
]]

--- Returns the annotations of declarations as one text.
---@param all table[]  declarations
---@param package? string  the package that they belong to; the library by default
---@return string
function M.print(all, package)
   local out = {
      "---@meta tlua" .. (package and "." .. package or ""),
      "-- Printed from the declarations beside the code; not to be edited.\n",
      "---@class torch", "local torch = {}\n",
   }
   if not package then
      out[#out + 1] = "---@alias Tensor torch.Tensor\n---@alias Generator torch.Generator\n"
      out[#out + 1] = tensor_head
   end
   local printed = {}
   for _, kind in ipairs {"module", "class", "function", "constant"} do
      for _, declared in ipairs(all) do
         local path = declared.path
         if declared.kind == kind and path ~= "torch" and path ~= "torch.Tensor"
            and is_writable(path) and (not declared.missing or declared.methods) then
            if kind == "module" then
               add_text(out, declared.text)
               out[#out + 1] = path .. " = {}\n"
            elseif kind == "class" then
               add_class(out, declared)
            elseif kind == "constant" then
               add_text(out, declared.text)
               local value = declared.value
               local quoted = value and not tonumber(value)
               out[#out + 1] = ("---@type %s\n%s = nil\n"):format(
                  quoted and "string" or value and "number" or "any", path)
            else
               add_paths(out, declared, printed)
            end
         end
      end
   end
   out[#out + 1] = ("return torch%s\n"):format(package and "." .. package or "")
   return table.concat(out, "\n")
end

--- Returns the annotations as files by name: "tlua" for the library, and one for each package that
--- is a table in torch, such as "vision" for torch.vision. Editors merge the class torch of these
--- files.
---@param all table[]  declarations
---@return table<string, string>
function M.files(all)
   local lists = {tlua = {}}
   for _, declared in ipairs(all) do
      local name = declared.path:gsub("^torch%.", ""):match "^[%w_]+"
      if packages.names[name] ~= "torch." .. name then name = "tlua" end
      lists[name] = lists[name] or {}
      table.insert(lists[name], declared)
   end
   local files = {}
   for name, list in pairs(lists) do
      files[name] = M.print(list, name ~= "tlua" and name or nil)
   end
   return files
end

return M
