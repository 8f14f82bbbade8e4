-- c_api.lua - generates the site's page of the C API from the comments and declarations in
-- src/tlua.h.

local html = require "html"

local M = {}

--- The page's entry in the site's list of guides.
M.guide = {path = "src/tlua.h", page = "c-api.html", title = "The C API: tlua.h", group = "Start"}

-- Returns the lines of a comment without the comment marks.
local function comment_lines(text)
   local lines = {}
   for line in (text:gsub("^/%*+ ?", ""):gsub("%s*%*/%s*$", "") .. "\n"):gmatch "([^\n]*)\n" do
      lines[#lines + 1] = (line:gsub("^%*%* ?", ""))
   end
   return lines
end

-- Returns the names that a piece of code declares: functions, types, macros, and the constants of
-- unnamed enums.
local function names_of(code)
   local names = {}
   local function add(pattern)
      for name in ("\n" .. code):gmatch(pattern) do names[#names + 1] = name end
   end
   add "[%s*](tl_[%w_]+)%("
   add "[%s*](luaopen_%w+)%("
   add "\n} (tl_[%w_]+);"
   add "\ntypedef struct [%w_]+ ([%w_]+);"
   add "\n#define ([%w_]+)"
   if code:find "^enum {" then add "\n%s+(TL_[%w_]+)" end
   return names
end

--- Reads a header. Returns its sections, which have a title and entries. An entry consists of the
--- lines of a comment, the code after the comment, and the names that this code declares. The first
--- section has no title and contains the header's own comment.
---@param text string
---@return {title?: string, entries: {comment: string[], code: string, names: string[]}[]}[]
function M.read(text)
   text = text:gsub("\n#if.-\n#endif", function(part) -- drops parts that some builds lack
      return part:find "TL_STORED_DTYPES" and part:match "\n#else(.*)\n#endif" or ""
   end)
   local sections = {{entries = {}}}
   local entry
   local function finish()
      if entry and (entry.code ~= "" or #sections == 1 and #sections[1].entries == 0) then
         entry.code = entry.code:gsub("\n$", "")
         entry.names = names_of(entry.code)
         table.insert(sections[#sections].entries, entry)
      end
      entry = nil
   end
   local at = 1
   while at <= #text do
      local comment, after = text:match("^(/%*.-%*/)[^\n]*\n()", at)
      local line, next_line = text:match("^([^\n]*)\n?()", at)
      if comment then
         finish()
         local title = comment:match "^/%* %-%-%-+\n%*%* ([^\n]+)\n"
         if title then
            sections[#sections + 1] = {title = title, entries = {}}
         else
            entry = {comment = comment_lines(comment), code = ""}
         end
         at = after
      else
         if line == "" then
            finish()
         elseif not line:find "^#%l" or line:find "^#define TL_" then
            entry = entry or {comment = {}, code = ""}
            entry.code = entry.code .. line:gsub("^TL_API ", ""):gsub("^TL_MUSTCHECK ", "") .. "\n"
         end
         at = next_line
      end
   end
   finish()
   return sections
end

--- Returns the page's HTML, and rows for the site's search.
---@param root string  the root of the repository
---@return string page
---@return string[][] rows
function M.html(root)
   local file <close> = assert(io.open(root .. "/src/tlua.h", "rb"))
   local sections = M.read(file:read "a")
   local links, rows = {}, {}
   for _, section in ipairs(sections) do
      for _, entry in ipairs(section.entries) do
         for _, name in ipairs(entry.names) do
            local words = table.concat(entry.comment, " ")
            links[name] = M.guide.page .. "#" .. name
            rows[#rows + 1] = {name, links[name], words:match "^(.-%.)%s" or words}
         end
      end
   end
   local function linked(text)
      return (text:gsub("[%a_][%w_]+", function(name)
         return links[name] and ('<a href="%s">%s</a>'):format(links[name], name) or nil
      end))
   end
   local out = {"<h1>" .. M.guide.title .. "</h1>"}
   for _, section in ipairs(sections) do
      if section.title then out[#out + 1] = "<h2>" .. html.escape(section.title) .. "</h2>" end
      for _, entry in ipairs(section.entries) do
         local anchors = {}
         for i, name in ipairs(entry.names) do anchors[i] = ('<a id="%s"></a>'):format(name) end
         out[#out + 1] = table.concat(anchors)
         if entry.code ~= "" then
            out[#out + 1] = "<pre><code>" .. html.escape(entry.code) .. "</code></pre>"
         end
         out[#out + 1] = linked(html.text(entry.comment, {}))
      end
   end
   return table.concat(out, "\n"), rows
end

return M
