-- kernelspec.lua - writes kernel.json, with which Jupyter finds the kernel.

local torch = require "tlua"
local json = require "tlua.utils.json"
local program = require "tlua.utils.program"
local replace_file = require "tlua.io.replace"

local M = {}

-- Returns the folder of the user's Jupyter data, which `jupyter --data-dir` prints.
local function user_folder()
   local own = os.getenv "JUPYTER_DATA_DIR"
   if own and own ~= "" then return own end
   local home = os.getenv "HOME"
   if not home or home == "" then
      torch.raise "notebook.install: HOME is not set; give a prefix"
   end
   local library <close> = io.open(home .. "/Library/Preferences")
   if library then return home .. "/Library/Jupyter" end
   local data = os.getenv "XDG_DATA_HOME"
   return (data and data ~= "" and data or home .. "/.local/share") .. "/jupyter"
end

--- Returns the content of kernel.json.
---@param display_name string
---@return string
function M.content(display_name)
   local spec = {
      argv = json.as_array {program(), "notebook", "kernel", "{connection_file}"},
      display_name = display_name, language = "lua", interrupt_mode = "message",
      metadata = {debugger = false},
   }
   return json.encode(spec) .. "\n"
end

--- Writes kernel.json and returns its folder.
---@param name string
---@param prefix? string
---@param display_name string
---@return string folder
function M.install(name, prefix, display_name)
   if not name:find "^[%w._-]+$" or name == "." or name == ".." then
      torch.raise(("notebook.install: name: expected letters, digits, dots, hyphens and "
         .. "underscores, got %q"):format(name))
   end
   if prefix == "" then torch.raise 'notebook.install: prefix: expected a folder, got ""' end
   local folder = (prefix and prefix .. "/share/jupyter" or user_folder()) .. "/kernels/" .. name
   local made, why = torch.io.make_folder(folder)
   if not made then torch.raise(("notebook.install: %s: %s"):format(folder, why)) end
   local failure = replace_file(folder .. "/kernel.json", function(file)
      local ok, problem = file:write(M.content(display_name))
      if not ok then return problem end
   end)
   if failure then torch.raise(("notebook.install: %s: %s"):format(folder, failure)) end
   return folder
end

return M
