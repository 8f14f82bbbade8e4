-- comments.lua - reads the comments of the files that git tracks, for draw_comments.lua and house_spec.lua.

local comments = {}

local in_c = { c = true, h = true, cu = true, cuh = true }

local function quoted(word) return "'" .. word:gsub("'", [['\'']]) .. "'" end

local function tracked_files(folders)
   local words = { "git ls-files --" }
   for _, folder in ipairs(folders) do words[#words + 1] = quoted(folder) end
   local pipe <close> = assert(io.popen(table.concat(words, " ")))
   local files = {}
   for path in pipe:lines() do files[#files + 1] = path end
   return files
end

local function lines_of(path)
   local lines = {}
   for line in io.lines(path) do lines[#lines + 1] = line end
   return lines
end

-- Replaces the strings in a line by dots.
local function without_strings(line)
   return (line:gsub('\\.', ".."):gsub('"[^"]*"', function(s) return ("."):rep(#s) end))
end

-- Calls found(first, last, text) for each C comment. `first` and `last` are the numbers of its lines, and `text` is its
-- text without the comment marks.
local function each_c_comment(lines, found)
   local i = 1
   while i <= #lines do
      local at = without_strings(lines[i]):find("/%*")
      local first = i
      if at then
         local text = { lines[i]:sub(at + 2) }
         while not text[#text]:find("*/", 1, true) and i < #lines do
            i = i + 1
            text[#text + 1] = lines[i]:gsub("^%s*%*%* ?", "")
         end
         text[#text] = text[#text]:gsub("%*/.*", "")
         found(first, i, table.concat(text, "\n"))
      end
      i = i + 1
   end
end

-- Calls `found` for each Lua comment. Adjacent lines that have only a comment count as one comment.
local function each_lua_comment(lines, found)
   local i = 1
   while i <= #lines do
      local text = lines[i]:match "^%s*%-%-%-?(.*)"
      if text and text:find "^%a" then text = nil end -- skips options in the help text of a program
      local at = not text and without_strings(lines[i]):find "%s%-%- "
      if at then text = lines[i]:sub(at + 4) end
      local first = i
      if text and not text:find "^%[=*%[" then
         local all = { text }
         while lines[i]:find "^%s*%-%-" and (lines[i + 1] or ""):find "^%s*%-%-" do
            i = i + 1
            all[#all + 1] = lines[i]:match "^%s*%-%-%-?(.*)"
         end
         found(first, i, table.concat(all, "\n"))
      end
      i = i + 1
   end
end

-- Returns whether a comment has prose. Prose has at least two words that are not an instruction to a tool.
local function has_prose(text)
   if text:find "^%s*clang%-format" or text:find "^%s*luacheck:" then return false end
   if text:find "^>" then return false end -- skips the lines that show an example's output
   local ruler = text:find "^%-+%s" or text:find "^%s*%-%-" or text:find "%-%-%-%-%s*$"
   if ruler then return false end
   local words = 0
   for line in (text .. "\n"):gmatch "([^\n]*)\n" do
      if not line:find "^%s*@" then
         for _ in line:gmatch "%a%a[%w_]*" do words = words + 1 end
      end
   end
   return words > 1
end

-- Returns the comments in `folders` that contain prose, as {path, line, text, code, at}. `code` is the line of code
-- beside or below the comment, and `at` is the number of that line.
function comments.read(folders)
   local all = {}
   for _, path in ipairs(tracked_files(folders)) do
      local ending = path:match "%.(%w+)$"
      local each = in_c[ending] and each_c_comment or ending == "lua" and each_lua_comment
      if each then
         local lines = lines_of(path)
         each(lines, function(first, last, text)
            if has_prose(text) then
               local at = lines[first]:find "^%s*[/%-]" and lines[last + 1] and last + 1 or first
               all[#all + 1] = { path = path, line = first, text = text, code = lines[at], at = at }
            end
         end)
      end
   end
   return all
end

return comments
