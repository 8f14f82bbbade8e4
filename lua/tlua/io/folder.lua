-- folder.lua - lists the contents of folders.

local torch = require "tlua"

local M = {}

--- Returns the kind of each entry of a folder: "d" for a folder, "l" for a link to a folder, "s"
--- for a pipe, a socket or a device, whose opening may wait for ever, and "f" for all other
--- entries.
---@param path string
---@return table<string, string>? kinds  by name; nil if the folder cannot be read
---@return string? message
function M.kinds(path)
   local bytes, message = torch.io.folder(path)
   if not bytes then return nil, message end
   local kinds = {}
   for kind, name in torch.io.text(bytes, 1, bytes:numel()):gmatch "(%a)(%Z+)%z" do
      kinds[name] = kind
   end
   return kinds
end

-- Returns the names of a folder's entries as a table of three lists: `d` has the folders, `l` the
-- links to folders, and `f` all other entries. Returns nil and a message if the folder cannot be
-- read.
local function names(path)
   local kinds, message = M.kinds(path)
   if not kinds then return nil, message end
   local list = {d = {}, l = {}, f = {}}
   for name, kind in pairs(kinds) do table.insert(list[kind] or list.f, name) end
   return list
end

--- Returns the sorted names in a folder.
---@param path string
---@return string[]? folders  including links to folders; nil, and a message as the second result,
--- if the folder cannot be read
---@return string[]|string files
---@return table<string, boolean> links  the folders that are links
function M.list(path)
   local found, message = names(path)
   if not found then return nil, message end
   local links = {}
   for _, name in ipairs(found.l) do links[name] = true end
   table.move(found.l, 1, #found.l, #found.d + 1, found.d)
   table.sort(found.d)
   table.sort(found.f)
   return found.d, found.f, links
end

--- Returns the absolute path of a folder.
---@param path string
---@return string? path  nil if there is no such folder
---@return string? message
function M.absolute(path)
   local entries, message = torch.io.folder(path)
   if not entries then return nil, message end
   return torch.io.make_folder(path) -- the folder exists, so this only returns its absolute path
end

--- Returns the sorted paths of all files below a folder, without unreadable folders. Links to
--- folders are not followed.
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
