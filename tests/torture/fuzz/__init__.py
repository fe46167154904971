"""What do strangers write: strategy texts and header bytes?"""
