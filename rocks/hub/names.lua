-- names.lua - checks the names of repositories, revisions and files before they become parts of
-- paths and URLs. If a name is invalid, the functions return nil and a text that says which kind of
-- name was expected.

local M = {}

-- Names of files that Windows reserves, whatever their extension is.
local reserved <const> = {con = true, prn = true, aux = true, nul = true}
for i = 1, 9 do reserved["com" .. i], reserved["lpt" .. i] = true, true end

local function is_part(part)
   return #part > 0 and #part <= 200 and not part:find '[%c\\:*?"<>|]'
      and not part:find "[. ]$" -- this test also refuses the names . and ..
      and not reserved[part:lower():match "^[^.]*"]
end

-- Returns whether a text is a relative path that stays inside its folder.
local function is_inside(text)
   if type(text) ~= "string" or #text == 0 or #text > 500 then return false end
   for part in (text .. "/"):gmatch "([^/]*)/" do
      if not is_part(part) then return false end
   end
   return true
end

--- Checks the path of a file inside a repository, and returns it.
---@param name any
---@return string? name  nil if it is invalid
---@return string expected
function M.file(name)
   local expected = "a file's name inside of the repository"
   return is_inside(name) and name or nil, expected
end

--- Splits "owner/name" or "owner/name:revision" into its parts.
---@param text string
---@return string? owner  nil on failure
---@return string? name
---@return string? revision
function M.repository(text)
   local owner, name, revision = text:match "^([%w._-]+)/([%w._-]+)$"
   if not owner then owner, name, revision = text:match "^([%w._-]+)/([%w._-]+):(.+)$" end
   if not owner or not is_part(owner) or not is_part(name) or #owner > 96 or #name > 96
         or owner:find "^[.-]" or name:find "^[.-]" or (owner .. name):find("--", 1, true) then
      return nil
   end
   if revision and not M.revision(revision) then return nil end
   return owner, name, revision
end

--- Checks the name of a branch, tag or commit, and returns it.
---@param text any
---@return string? revision  nil if it is invalid
---@return string expected
function M.revision(text)
   local fits = is_inside(text) and text:find "^[%w._/-]+$" and not text:find "^%-"
   return fits and text or nil, "a branch, a tag or a commit"
end

--- Returns the name of the file at the end of a URL, or nil if this is not an allowed name.
---@param url string
---@return string?
function M.of_url(url)
   local name = url:gsub("[?#].*", ""):match "^%a+://[^/]+/.-([^/]+)$"
   name = name and name:gsub("%%(%x%x)", function(code) return string.char(tonumber(code, 16)) end)
   return name and is_part(name) and not name:find "/" and name or nil
end

return M
