-- release.lua - prints what a release needs in addition to the sources:
--
--    tlua rocks/release.lua notes [FROM]           the notes: the subjects of commits since FROM
--    tlua rocks/release.lua rockspecs VERSION OUT  rockspecs of a version, in a folder
--
-- By default FROM is the last tag, or the first commit if there is no tag.

local M = {}

local function lines_of(command)
   local list = {}
   local pipe = assert(io.popen(command))
   for line in pipe:lines() do list[#list + 1] = line end
   pipe:close()
   return list
end

-- The sections of the notes. Each is a list with the section's title and the verbs with which the
-- subjects of its commits begin.
local sections <const> = {
   {"New", "Add Let Support Write Ship Install Print Show Tell Count Read Save Load"},
   {"Mended", "Fix Mend Refuse Keep Guard Wait Raise Check Report Avoid Stop Name Say"},
   {"Faster and smaller", "Speed Reduce Shorten Skip Cache Fuse Run"},
   {"Removed", "Remove Delete Drop Leave"},
   {"Other changes", ""},
}

local section_of <const> = {}
for _, section in ipairs(sections) do
   for verb in section[2]:gmatch "%a+" do section_of[verb] = section[1] end
end

-- The first words of commits that users do not notice, such as those about specs, comments and
-- moved files.
local inner <const> = {
   Reword = true, Wrap = true, Rename = true, Move = true,
   Merge = true, Test = true, Correct = true, Complete = true,
}

--- Sorts the subjects of commits into sections. Subjects about specs and comments are left out.
---@param subjects string[]  the newest first
---@return string notes  the notes in Markdown
function M.notes(subjects)
   local by_section, left_out = {}, 0
   for _, subject in ipairs(subjects) do
      local place, rest = subject:match "^([%w_/, ]+): (.+)$"
      local verb = (rest or subject):match "^%a+" or ""
      if inner[verb] or place
         and (place:find "^spec" or place:find "_spec$" or place:find "README") then
         left_out = left_out + 1
      else
         local title = section_of[verb] or "Other changes"
         by_section[title] = by_section[title] or {}
         table.insert(by_section[title], "* " .. subject)
      end
   end
   local out = {}
   for _, section in ipairs(sections) do
      local list = by_section[section[1]]
      if list then
         out[#out + 1] = ("## %s\n\n%s\n"):format(section[1], table.concat(list, "\n"))
      end
   end
   out[#out + 1] = ("%d further commits change specs, comments and places of files."):format(
      left_out)
   return table.concat(out, "\n")
end

--- Returns the rockspec of a version, made from the rockspec in the sources.
---@param text string  the text of a rockspec whose version is scm-1
---@param version string
---@return string
function M.rockspec(text, version)
   text = text:gsub('version = "scm%-1"', ('version = "%s-1"'):format(version), 1)
   text = text:gsub('source = {url = "([^"]+)"}',
      ('source = {url = "%%1", tag = "v%s"}'):format(version), 1)
   return (text:gsub("scm%-1%.rockspec", version .. "-1.rockspec"))
end

local function notes(from)
   from = from or lines_of("git describe --tags --abbrev=0 2>/dev/null")[1]
   print(M.notes(lines_of("git log --format=%s " .. (from and from .. "..HEAD" or "HEAD"))))
end

local function rockspecs(version, out)
   for _, path in ipairs(lines_of "ls rocks/*-scm-1.rockspec rocks/*/*-scm-1.rockspec") do
      local file <close> = assert(io.open(path, "rb"))
      local name = path:match("([^/]+)-scm%-1%.rockspec$")
      local to <close> = assert(io.open(("%s/%s-%s-1.rockspec"):format(out, name, version), "wb"))
      to:write(M.rockspec(file:read "a", version))
   end
end

local command <const> = arg and arg[0] and arg[0]:find "release%.lua$" and arg[1]
if command == "notes" then
   notes(arg[2])
elseif command == "rockspecs" then
   rockspecs(assert(arg[2], "a version is missing"), assert(arg[3], "a folder is missing"))
elseif command then
   error("usage: tlua rocks/release.lua notes [FROM] | rockspecs VERSION OUT")
end

return M
