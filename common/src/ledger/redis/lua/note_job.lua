-- Notes the summary of a job in the index. Returns 1; 0 where what is known of it stands.
-- A value is the order and the summary with a colon between them; an empty one is that of a job that was removed.
-- ARGV: job, order, summary, whether it was found in storage a while ago (0, 1), time to live in seconds
local jobs, changed, removed, index = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local known = redis.call('HGET', jobs, ARGV[1])
if known and ARGV[4] == '1' then return 0 end
if known and known ~= '' then
  if tonumber(string.match(known, '^%d+')) > tonumber(ARGV[2]) then return 0 end
end
local value = ARGV[2] .. ':' .. ARGV[3]
if known ~= value then
  local time = redis.call('TIME')
  -- The time makes numbers grow over the loss of all keys.
  local number = math.max(tonumber(time[1]) * 1000000 + tonumber(time[2]), tonumber(redis.call('HGET', index, 'last') or '0') + 1)
  redis.call('HSET', index, 'last', string.format('%.0f', number))
  redis.call('HSET', jobs, ARGV[1], value)
  redis.call('ZADD', changed, number, ARGV[1])
  redis.call('ZREM', removed, ARGV[1])
end
for _, key in ipairs(KEYS) do redis.call('EXPIRE', key, ARGV[5]) end
return 1
