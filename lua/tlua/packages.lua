-- packages.lua - the packages beside the core: Lua that is not part of the library, but lies in
-- files. Package NAME has the module tlua.NAME and those below it. They are looked for in the
-- folder `rocks` beside the library (a checkout), in share/lua/5.4/tlua of the prefix that the
-- library is installed in, and then along package.path, where LuaRocks puts them. A package's files
-- are loaded as those of the library are, so that its errors name the user's line.

local torch = require "tlua"

local M = {}

--- The packages' names, each with its place in torch.
---@type table<string, string>
M.names = {
   datapipes = "torch.utils.data.datapipes",
   mlflow = "torch.utils.mlflow",
   plot = "torch.utils.plot",
   tensorboard = "torch.utils.tensorboard",
   text = "torch.text",
   torch7 = "torch.nn, for Torch7's layers and methods",
}

--- The package that a module belongs to.
---@param module string  such as "tlua.text.BPE"
---@return string? name
function M.of(module)
   local name = module:match "^tlua%.([%w_]+)"
   return M.names[name] and name
end

--- The sentence for errors that says how to get a package.
---@param name string
---@return string
function M.advice(name)
   return ("the package %s is not installed: luarocks install tlua-%s"):format(name, name)
end

-- Templates, as in package.path, for a module's name without "tlua.".
local function templates()
   local folder = torch._library_path():match "^(.*)/" or "."
   local list = {}
   for _, place in ipairs {"rocks", "../share/lua/5.4/tlua", "../../share/lua/5.4/tlua"} do
      list[#list + 1] = ("%s/%s/?.lua;%s/%s/?/init.lua"):format(folder, place, folder, place)
   end
   return table.concat(list, ";")
end

local own_path -- made when it is first needed

--- The file of a package's module; nil where the package is not installed, or in a host whose Lua
--- state has no package library.
---@param module string  such as "tlua.text.BPE"
---@return string? path
function M.find(module)
   if not (package and io and M.of(module)) then return nil end
   own_path = own_path or templates()
   return package.searchpath(module:gsub("^tlua%.", ""), own_path)
      or package.searchpath(module, package.path)
end

--- The text of a package's module, and the name of its chunk.
---@param name string  the module's, such as "tlua.text.BPE", or its chunk's, "=tlua:text/BPE.lua"
---@return string? text
---@return string? chunk
---@return string? path
function M.source(name)
   local inner = name:match "^=tlua:(.*)%.lua$"
   local module = inner and "tlua." .. inner:gsub("/init$", ""):gsub("/", ".") or name
   local path = M.find(module)
   local file <close> = path and io.open(path, "rb")
   if not file then return nil end
   local tail = path:find "/init%.lua$" and "/init.lua" or ".lua"
   return file:read "a", "=tlua:" .. module:gsub("^tlua%.", ""):gsub("%.", "/") .. tail, path
end

--- A searcher, as package.searchers has them.
---@param module string
---@return any loader  or a text for require's error; nil for modules of others
---@return string? path
function M.search(module)
   local name = M.of(module)
   if not name then return nil end
   local text, chunk, path = M.source(module)
   if not text then
      local there = M.find("tlua." .. name)
      return there and ("the package %s has no such module"):format(name) or M.advice(name)
   end
   local loader, message = load(text, chunk, "t", _ENV)
   if not loader then error(("error loading module '%s':\n\t%s"):format(module, message), 0) end
   return loader, path
end

--- Whether a module is there: one of the library's, or of a package that is installed.
---@param module string
---@return boolean
function M.has(module)
   return not M.of(module) or package and package.loaded[module] ~= nil or M.find(module) ~= nil
end

--- Raises, at the user's line, if a module belongs to a package that is not installed.
---@param module string
---@param title string  the public name that was used, such as "torch.text"
function M.check(module, title)
   if not M.has(module) then torch.raise(("%s: %s"):format(title, M.advice(M.of(module)))) end
end

return M
