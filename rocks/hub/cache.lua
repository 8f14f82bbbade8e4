-- cache.lua - the folder of downloaded files. A file from a URL is stored as checkpoints/NAME.
-- Repositories have the layout of Hugging Face's library, with `github` in place of `models` for
-- those of GitHub. If the server names no commit, COMMIT is the revision:
--
--    models--OWNER--NAME/refs/REVISION               a text file with the commit
--    models--OWNER--NAME/snapshots/COMMIT/FILE       the file, with FILE.sha256 beside it
--    models--OWNER--NAME/.no_exist/COMMIT/FILE       an empty file: the repository has no such file

local torch = require "tlua"
local folder = require "tlua.io.folder"
local download = require "tlua.hub.download"

local M = {}

local chosen -- the folder that the program has set with set_dir, or nil

local function variable(name)
   local value = os.getenv(name)
   return value ~= "" and value or nil
end

local function home() return variable "HOME" or variable "USERPROFILE" or "." end

--- Returns the cache folder.
---@return string
function M.get_dir()
   if chosen then return chosen end
   local own, xdg = variable "TLUA_CACHE", variable "XDG_CACHE_HOME"
   return (own or (xdg or home() .. "/.cache") .. "/tlua") .. "/hub"
end

--- Sets the cache folder.
---@param path string
function M.set_dir(path) chosen = path:find "^/+$" and "/" or path:gsub("/+$", "") end

--- Returns the cache folder of Hugging Face's library.
---@return string
function M.others()
   local own, base = variable "HF_HUB_CACHE", variable "HF_HOME"
   if own then return own end
   return (base or (variable "XDG_CACHE_HOME" or home() .. "/.cache") .. "/huggingface") .. "/hub"
end

--- Returns whether downloads are forbidden, by the caller's option or by an environment variable.
---@param given? boolean  the caller's option
---@return boolean
function M.is_offline(given)
   if given ~= nil then return given end
   local word = variable "TLUA_OFFLINE" or variable "HF_HUB_OFFLINE"
   return word ~= nil and word ~= "0" and word:lower() ~= "false"
end

--- Returns the text of a short file without surrounding spaces, or nil if the file cannot be read.
---@param path string
---@return string?
function M.read_word(path)
   local file <close> = io.open(path, "rb")
   local text = file and file:read(4096)
   return text and text:match "^%s*(.-)%s*$"
end

--- Writes a short file. If this fails, nothing is reported: without the file, only an additional
--- request is needed later.
---@param path string
---@param text string
function M.write_word(path, text)
   if not torch.io.make_folder((path:match "^(.*)/")) then return end
   require "tlua.io.replace"(path, function(file) return select(2, file:write(text)) end)
end

local function list(path)
   local folders, files = folder.list(path)
   return folders or {}, folders and files or {}
end

-- Returns the total size of the files below a folder.
local function size_of(path)
   local bytes = 0
   for _, file in ipairs(folder.files_below(path)) do bytes = bytes + (download.size(file) or 0) end
   return bytes
end

--- Lists the downloaded files and repositories. The name of a repository has the form
--- "owner/name@commit".
---@return {name: string, path: string, bytes: integer}[]
function M.contents()
   local found, base = {}, M.get_dir()
   for _, entry in ipairs((list(base))) do
      local owner, name = entry:match "^%l+%-%-(.-)%-%-(.+)$"
      if owner then
         for _, commit in ipairs((list(base .. "/" .. entry .. "/snapshots"))) do
            local path = ("%s/%s/snapshots/%s"):format(base, entry, commit)
            found[#found + 1] = {name = ("%s/%s@%s"):format(owner, name, commit), path = path,
               bytes = size_of(path)}
         end
      end
   end
   local _, files = list(base .. "/checkpoints")
   for _, name in ipairs(files) do
      if not name:find "%.sha256$" and not name:find "%.part$" and not name:find "%.part%.tag$" then
         local path = base .. "/checkpoints/" .. name
         found[#found + 1] = {name = name, path = path, bytes = download.size(path) or 0}
      end
   end
   return found
end

--- Checks all files that have a checksum. Returns the number of these files, and a message for each
--- damaged file.
---@return integer count
---@return string[] failures
function M.verify()
   local count, failures = 0, {}
   for _, path in ipairs(folder.files_below(M.get_dir())) do
      local file = path:match "^(.*)%.sha256$"
      if file and download.exists(file) then
         count = count + 1
         failures[#failures + 1] = download.check(file)
      end
   end
   return count, failures
end

return M
