-- packages.lua - finds the packages beside the core, which are Lua files outside of the library.
-- Package NAME has the module tlua.NAME and its submodules. Modules are searched in the folder
-- `rocks` beside the library (in a checkout), in share/lua/5.4/tlua below the library's
-- installation prefix, and then along package.path, where LuaRocks installs them. A package's files
-- are loaded like the library's own, so that their errors name the user's line.

local torch = require "tlua"

local M = {}

--- The packages' names, with their paths in torch.
---@type table<string, string>
M.names = {
   audio = "torch.audio",
   datapipes = "torch.utils.data.datapipes",
   graphs = "torch.graphs",
   llm = "torch.llm",
   hub = "torch.hub",
   mlflow = "torch.utils.mlflow",
   notebook = "torch.notebook",
   onnx = "torch.onnx",
   plot = "torch.utils.plot",
   rl = "torch.rl",
   serve = "torch.serve",
   tensorboard = "torch.utils.tensorboard",
   text = "torch.text",
   trainer = "torch.trainer",
   torch7 = "torch.nn, for Torch7's layers and methods",
   vision = "torch.vision",
   wandb = "torch.utils.wandb",
}

--- Returns the package of a module.
---@param module string  such as "tlua.text.BPE"
---@return string? name
function M.of(module)
   local name = module:match "^tlua%.([%w_]+)"
   return M.names[name] and name
end

--- Returns the sentence in errors that tells how to install a package.
---@param name string
---@return string
function M.advice(name)
   return ("the package %s is not installed: luarocks install tlua-%s"):format(name, name)
end

-- Returns path templates, like those in package.path, for the files of the packages beside the
-- library. A module's name without "tlua." is inserted into them.
local function templates()
   local folder = torch._library_path():match "^(.*)/" or "."
   local list = {}
   for _, place in ipairs {"rocks", "../share/lua/5.4/tlua", "../../share/lua/5.4/tlua"} do
      list[#list + 1] = ("%s/%s/?.lua;%s/%s/?/init.lua"):format(folder, place, folder, place)
   end
   return table.concat(list, ";")
end

local own_path -- path templates of the packages beside the library; computed on first use

--- Returns the file of a package's module; nil if the package is not installed, if the host's Lua
--- state has no package library, or if its scripts may not use files.
---@param module string  such as "tlua.text.BPE"
---@return string? path
function M.find(module)
   if not (package and io and M.of(module)) or rawget(torch, "_no_files") then return nil end
   own_path = own_path or templates()
   return package.searchpath(module:gsub("^tlua%.", ""), own_path)
      or package.searchpath(module, package.path)
end

--- Returns the source text of a package's module, and its chunk name.
---@param name string  the module, such as "tlua.text.BPE", or its chunk name, "=tlua:text/BPE.lua"
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

--- Searches a module, as an entry of package.searchers. `require "torch7"` returns the table that
--- Torch7's scripts call `torch`.
---@param module string
---@return any loader  or a text for require's error; nil for any other module
---@return string? path
function M.search(module)
   if module == "torch7" then
      if not M.find "tlua.torch7" then return M.advice "torch7" end
      return function() return require "tlua.torch7.torch" end
   end
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

--- Returns whether a module exists, in the library or in an installed package.
---@param module string
---@return boolean
function M.has(module)
   if not M.of(module) then return torch._is_embedded(module) end
   return package and package.loaded[module] ~= nil or M.find(module) ~= nil
end

--- Raises an error, at the user's line, if a module is not embedded and cannot be found. Then this
--- build has left out the module, or the module's package is not installed.
---@param module string
---@param title string  the public name that the program has used, such as "torch.text"
function M.check(module, title)
   local package = M.of(module)
   if not package then
      torch.raise(("%s: %s is not in this build (PROFILE=infer)"):format(title, module))
   elseif not M.has(module) then
      torch.raise(("%s: %s"):format(title, M.advice(package)))
   end
end

return M
