-- answer.lua - answers a request; lighttpd's mod_magnet runs this file for each request. The body
-- of a POST to /recognise has one image per line, as 64 grey levels; the answer has one digit per
-- line. A POST to /learn/DIGIT trains this worker's network with images of that digit.
local r = lighty.r -- luacheck: read globals lighty
if not r.req_body.collect then return 0 end -- waits until the whole body has arrived

local length = tonumber(r.req_header["Content-Length"]) or 0
-- lighttpd 1.4.69 may put the request's header before a short body. The body is the end of the
-- text, whose length is known.
local body = length > 0 and r.req_body.get:sub(-length) or ""
local digits = require "digits"
local path = r.req_attr["uri.path"]
local digit = path:match "^/learn/(.*)$"

r.resp_header["Content-Type"] = "text/plain"
if path ~= "/recognise" and not digit then
   r.resp_body.set "POST to /recognise or /learn/DIGIT\n"
   return 404
end
local good, text
if digit then
   good, text = pcall(digits.learn, body, tonumber(digit))
else
   good, text = pcall(digits.recognise, body)
end
r.resp_body.set(good and text or text .. "\n")
return good and 200 or 400
