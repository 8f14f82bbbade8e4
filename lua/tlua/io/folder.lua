-- folder.lua - what is in a folder.

local torch = require "tlua"

local M = {}

-- Names by kind: "d" folders, "l" links to them, "f" all else; or nil and a message.
local function names(path)
   local bytes, message = torch.io.folder(path)
   if not bytes then return nil, message end
   local list = {d = {}, l = {}, f = {}}
   for kind, name in torch.io.text(bytes, 1, bytes:numel()):gmatch "([dlf])(%Z+)%z" do
      table.insert(list[kind], name)
   end
   return list
end

--- The names in a folder, sorted.
---@param path string
---@return string[]? folders  with links to such; nil with a message if it cannot be read
---@return string[]|string files
function M.list(path)
   local found, message = names(path)
   if not found then return nil, message end
   table.move(found.l, 1, #found.l, #found.d + 1, found.d)
   table.sort(found.d)
   table.sort(found.f)
   return found.d, found.f
end

--- The paths of all files below a folder, sorted; what cannot be read is left out. Links to folders
--- are not followed.
---@param path string
---@return string[]
function M.files_below(path)
   local paths = {}
   local function collect(folder)
      local found = names(folder) or {d = {}, f = {}}
      for _, name in ipairs(found.f) do paths[#paths + 1] = folder .. "/" .. name end
      for _, name in ipairs(found.d) do collect(folder .. "/" .. name) end
   end
   collect(path)
   table.sort(paths)
   return paths
end

return M
