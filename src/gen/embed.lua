-- embed.lua OUT.c ROOT FILE...: writes Lua sources as C string literals, with the table that
-- src/lua/embed.h declares. A FILE below ROOT becomes the module of that name in `tlua`, and an
-- init.lua the module of its folder; MODULE=FILE names the module explicitly. Files that contain
-- only annotations for editors (`---@meta`) are left out.

local escapes = {
   ["\n"] = "\\n", ["\t"] = "\\t", ["\r"] = "\\r", ['"'] = '\\"', ["\\"] = "\\\\",
   ["?"] = "\\?", -- avoids trigraphs
}

local function escape(text)
   return (text:gsub('[%c"\\?\128-\255]', function(c)
      return escapes[c] or ("\\%03o"):format(c:byte())
   end))
end

-- Writes one literal for each source line, so that the C file reads like the source.
local function literal(text)
   local lines = {}
   for line in text:gmatch("[^\n]*\n?") do
      if line ~= "" then lines[#lines + 1] = '  "' .. escape(line) .. '"' end
   end
   return #lines > 0 and table.concat(lines, "\n") or '  ""'
end

-- Returns the module's name and its chunk's name for an argument as described above.
local function names(root, argument)
   local module, path = argument:match("^([%w_.]+)=(.+)$")
   if module then return module, path, (path:match("[^/]+$")) end
   path = argument
   assert(path:sub(1, #root + 1) == root .. "/", path .. " does not lie in " .. root)
   local inner = path:sub(#root + 2)
   module = "tlua." .. inner:gsub("%.lua$", ""):gsub("/", ".")
   return module:gsub("%.init$", ""), path, inner
end

local function read(path)
   local file <close> = assert(io.open(path, "rb"))
   return file:read("a")
end

local function collect(root, arguments)
   local entries, seen = {}, {}
   for _, argument in ipairs(arguments) do
      local module, path, inner = names(root, argument)
      local text = read(path)
      assert(load(text, "@" .. path, "t")) -- a syntax error fails the build
      if not text:find("^%-%-%-@meta") then
         assert(not seen[module], "two files for the module " .. module)
         seen[module] = true
         entries[#entries + 1] = {module = module, chunk = "=tlua:" .. inner, text = text}
      end
   end
   table.sort(entries, function(a, b) return a.module < b.module end)
   return entries
end

local function write(path, entries)
   local out <close> = assert(io.open(path, "wb"))
   out:write("/* Written by src/gen/embed.lua. */\n", '#include "lua/embed.h"\n')
   for i, entry in ipairs(entries) do
      out:write(("\n/* %s */\nstatic const char text_%d[] =\n%s;\n"):format(
         entry.module, i, literal(entry.text)))
   end
   out:write("\nconst tli_Embedded tli_embedded[] = {\n")
   for i, entry in ipairs(entries) do
      out:write(('  {"%s", "%s", text_%d, sizeof text_%d - 1},\n'):format(
         entry.module, entry.chunk, i, i))
   end
   out:write(("  {NULL, NULL, NULL, 0},\n};\n\nconst size_t tli_embedded_count = %d;\n"):format(
      #entries))
end

write(arg[1], collect(arg[2], {table.unpack(arg, 3)}))
