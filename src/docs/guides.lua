-- guides.lua - collects the guides of the site, which are Markdown files next to the sources.

local html = require "html"

local M = {}

-- The groups of guides, in order. Each row has a pattern for paths and the title of the group. A
-- third field replaces the guide's own heading if that heading is unsuitable as a title.
local groups <const> = {
   {"^README.md$", "Start"},
   {"^lua/tlua/from_pytorch.md$", "Start"},
   {"^rocks/torch7/README.md$", "Start", "Coming from Torch7"},
   {"^lua/tlua/port/", "Start", "Porting with tlua port"},
   {"^examples/embed/", "Start"},
   {"^rocks/README.md$", "Packages"},
   {"^rocks/", "Packages"},
   {"^lua/", "Guides"},
   {"^kernels/", "Devices and systems"},
   {"^src/building.md$", "Devices and systems"},
   {"^src/README.md$", "For developers", "How the sources are arranged"},
   {"^src/", "For developers"},
}

local order <const> = {
   Start = 1, Guides = 2, ["Devices and systems"] = 3, Packages = 4, ["For developers"] = 5,
}

-- Returns the index of the row in `groups` that matches a path, or nil if no row matches because
-- the file is not a guide.
local function row_of(path)
   for i, row in ipairs(groups) do
      if path:find(row[1]) then return i end
   end
end

local function read(path)
   local file <close> = assert(io.open(path, "rb"))
   return file:read "a"
end

local function title_of(text, path)
   return text:match "^#%s+([^\n]+)" or text:match "\n#%s+([^\n]+)" or path
end

--- Returns the guides of a repository.
---@param root string
---@return {path: string, page: string, title: string, group: string}[]
function M.list(root)
   local guides = {}
   local files = assert(io.popen(("cd '%s' && find README.md src lua kernels rocks examples "
      .. "-name '*.md' | sort"):format(root)))
   for path in files:lines() do
      local page = "guide-" .. path:gsub("%.md$", ""):gsub("/?README$", ""):gsub("/", "-")
      if path == "README.md" then page = "index" end
      local row = row_of(path)
      guides[#guides + 1] = row and {
         path = path, page = page .. ".html", group = groups[row][2], row = row,
         title = groups[row][3] or title_of(read(root .. "/" .. path), path),
      }
   end
   files:close()
   table.sort(guides, function(a, b)
      local x, y = order[a.group], order[b.group]
      if x ~= y then return x < y end
      if a.row ~= b.row then return a.row < b.row end
      return a.title < b.title
   end)
   return guides
end

-- Resolves the "." and ".." components of a path.
local function normal(path)
   local parts = {}
   for part in path:gmatch "[^/]+" do
      if part == ".." then
         parts[#parts] = nil
      elseif part ~= "." then
         parts[#parts + 1] = part
      end
   end
   return table.concat(parts, "/")
end

--- Returns a guide as HTML. Links to other guides lead to their pages; links to files that the site
--- does not contain become plain text.
---@param root string
---@param guide table  a guide that `list` has returned
---@param all table[]
---@param links table<string, string>  names that have a page
---@return string
function M.html(root, guide, all, links)
   local command = ("cmark-gfm -e table -e strikethrough '%s/%s'"):format(root, guide.path)
   local pipe = assert(io.popen(command))
   local text = pipe:read "a"
   assert(pipe:close(), "cmark-gfm was not found: run make deps")
   local pages = {}
   for _, other in ipairs(all) do
      pages[other.path] = other.page
      pages[other.path:gsub("/?README%.md$", "")] = other.page
   end
   local folder = guide.path:match "^(.*)/" or ""
   text = text:gsub('<a href="([^"]*)"[^>]*>(.-)</a>', function(target, shown)
      if target:find "^https?:" or target:find "^#" then return nil end
      local page = pages[normal(folder .. "/" .. target:gsub("#.*$", ""))]
      return page and ('<a href="%s">%s</a>'):format(page, shown) or shown
   end)
   text = text:gsub("<h([12])>(.-)</h%1>", function(level, shown)
      local id = shown:gsub("<[^>]+>", ""):lower():gsub("[^%w]+", "-"):gsub("^%-+", "")
      return ('<h%s id="%s">%s</h%s>'):format(level, id, shown, level)
   end)
   text = text:gsub('<a href="#([^"]*)">(.-)</a>', function(id, shown)
      return text:find(('id="%s"'):format(id), 1, true) and nil or shown
   end)
   return (text:gsub("<code>([%w_.]+)</code>", function(name)
      local at = links[name] or links["torch." .. name]
      return at and ('<code><a href="%s">%s</a></code>'):format(at, html.escape(name)) or nil
   end))
end

return M
